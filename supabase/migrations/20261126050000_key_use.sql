-- The record of a key's use that gateways of version 0.2 made with each key. Since version 1.0 they call record_usage.

drop function public.record_key_use(text);
drop function private.touch_key(text);
