-- What the search by name no longer reads, by itself: these locks hold up all who read, for a moment.
drop index private.alunos_in_order, private.alunos_by_nome, private.alunos_by_short_part;
alter index private.alunos_in_order_with_names rename to alunos_in_order;
drop function private.short_parts(text);
