-- A part of a name that nearly all students have, but none of the first 1,000, was looked for in all rows, whose name parts were computed
-- anew: among 300,000 students that took longer than a call may, and with the index half a second.
alter function private.search_alunos(uuid, text, boolean, uuid, boolean, uuid, timestamptz, uuid, integer, integer)
  set enable_seqscan = off;
