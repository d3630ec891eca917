// The administration's texts in Portuguese, by their English text, in which {0} and {1} are values. api/messages.ts has the messages
// that the API uses too.

/** The texts of the administration's own code. */
export const PORTUGUESE: Readonly<Record<string, string>> = {
  // Help
  'Usage:': 'Uso:',
  'Options:': 'Opções:',
  'Arguments:': 'Argumentos:',
  'Commands:': 'Comandos:',
  Example: 'Exemplo',
  Examples: 'Exemplos',
  '[options]': '[opções]',
  '[command]': '[comando]',
  ' (default: {0})': ' (padrão: {0})',
  ' (required)': ' (obrigatório)',
  'display help for command': 'mostra a ajuda do comando',
  'print one JSON value, for scripts': 'imprime um único valor JSON, para scripts',
  'the language: pt or en; by default as LC_ALL, LC_MESSAGES or LANG says':
    'o idioma: pt ou en; por padrão, o de LC_ALL, LC_MESSAGES ou LANG',
  'Administers tenants, their API keys, their data, and backups.':
    'Administra tenants, suas chaves de API, seus dados e backups.',
  "\nIt works on the store in the gateway's configuration, also while the gateway runs: the folder\nDATA_DIR, .data by default, or DATABASE_URL with the role that migrated the database.":
    '\nTrabalha no banco da configuração do gateway, mesmo com o gateway em execução: a pasta\nDATA_DIR, por padrão .data, ou DATABASE_URL com a role que migrou o banco.',
  '\nFor scripts: npm run --silent admin -- … --json prints one JSON value on standard output, and\n{"error": …, "hint": …} on standard error after a failure; in English, unless --lang pt is given.\n\nExit codes: 0 done; 1 refused or failed, also for bad lines in an import; 2 wrong usage.':
    '\nPara scripts: npm run --silent admin -- … --json imprime um único valor JSON na saída padrão e,\napós uma falha, {"error": …, "hint": …} na saída de erros; em inglês, a não ser com --lang pt.\n\nCódigos de saída: 0 feito; 1 recusado ou falhou, também por linhas com problemas em uma\nimportação; 2 uso incorreto.',
  'do not ask for the name, for scripts': 'não pergunta pelo nome, para scripts',
  'academias, personais, alunos, …: a table with data of tenants':
    'academias, personais, alunos, …: uma tabela com dados de tenants',
  '{0}; or all': '{0}; ou all, para todas',
  'its id; or its e-mail, or the name of a gym': 'o id do registro; ou o e-mail, ou o nome de uma academia',
  '{0}; of one that was deleted its id': '{0}; de um que foi excluído, o id',
  'the tenant, as in tenant list': 'o tenant, como em tenant list',
  'the tenant, as in tenant list; all by default': 'o tenant, como em tenant list; por padrão, todos',
  "the key's id or its prefix, as in key list": 'o id da chave ou seu prefixo, como em key list',
  '{0}; before the options': '{0}; antes das opções',
  '{0}; all by default. It counts together with the keys that it replaced.':
    '{0}; por padrão, todas. Ela conta junto com as chaves que substituiu.',
  'a duration from now (90d, 12h), a date (its start in UTC), a time (2027-12-31T18:00Z), or never':
    'uma duração a partir de agora (90d, 12h), uma data (seu início em UTC), um horário (2027-12-31T18:00Z) ou never (nunca)',
  '{0}; by default like the old key': '{0}; por padrão, como na chave antiga',
  'create, list and delete tenants, their usage and limits': 'cria, lista e exclui tenants; seu uso e seus limites',
  'issue, list, rotate, revoke and limit API keys, and their usage':
    'emite, lista, troca, revoga e limita chaves de API; seu uso',
  'show and erase what the store has of one student': 'mostra e apaga o que o banco tem de um aluno',
  'create a tenant': 'cria um tenant',
  'its name': 'o nome',
  'list the tenants with their ids': 'lista os tenants com seus ids',
  'delete a tenant, its keys and all its data': 'exclui um tenant, suas chaves e todos os seus dados',
  "the student's id or e-mail": 'o id ou o e-mail do aluno',
  'print all data about a student as JSON': 'imprime todos os dados de um aluno em JSON',
  'delete all data about a student': 'apaga todos os dados de um aluno',
  'issue a key and show it once': 'emite uma chave e a mostra uma única vez',
  'what the key is for': 'para que serve a chave',
  'a function that it may call; all by default': 'uma função que ela pode chamar; por padrão, todas',
  'a word at the beginning of the key': 'uma palavra no começo da chave',
  'list keys: everything except the key itself': 'lista chaves: tudo, menos a própria chave',
  'only the keys of this tenant': 'somente as chaves deste tenant',
  'issue a key that replaces another; both work for a while':
    'emite uma chave que substitui outra; as duas funcionam por um tempo',
  'how long the old key still works: 24h, 30m, 0s': 'por quanto tempo a chave antiga ainda funciona: 24h, 30m, 0s',
  'end a key, now and for good': 'encerra uma chave, agora e para sempre',
  'set the functions that a key may call': 'define as funções que uma chave pode chamar',
  'a function that it may call, and no others': 'uma função que ela pode chamar, e nenhuma outra',
  'it may call all functions': 'ela pode chamar todas as funções',
  'Expected --permission FUNCTION or --all.': 'Informe --permission FUNÇÃO ou --all.',
  'how many days, today included': 'quantos dias, incluindo hoje',
  'print CSV, with a line for each day': 'imprime CSV, com uma linha para cada dia',
  'show the calls of tenants': 'mostra as chamadas de tenants',
  'show the calls of keys': 'mostra as chamadas de chaves',
  'set or show the limits of each key that has none of its own':
    'define ou mostra os limites de cada chave que não tem limites próprios',
  'set or show the limits of a key; those that are left out are lifted':
    'define ou mostra os limites de uma chave; os que não são informados deixam de valer',
  'calls per minute': 'chamadas por minuto',
  'how many of them may come at once; all by default': 'quantas delas podem vir de uma vez; por padrão, todas',
  'calls per day': 'chamadas por dia',
  'calls per month': 'chamadas por mês',
  'no limit': 'sem limite',
  'the limits of its tenant': 'os limites do seu tenant',
  'list the records that have a text, such as a part of a name':
    'lista os registros que têm um texto, como uma parte de um nome',
  'ignoring capitals and accents; or an id': 'sem diferenciar maiúsculas e acentos; ou um id',
  'list no more': 'não lista mais do que isso',
  'show a record': 'mostra um registro',
  'show who changed a record, and when': 'mostra quem alterou um registro, e quando',
  'correct a record, and show what has changed': 'corrige um registro e mostra o que mudou',
  'as in a file to import; without a value it is cleared':
    'como em um arquivo a importar; sem valor, a coluna fica vazia',
  'set ativo to false; update sets it to true again': 'define ativo como false; update volta a definir como true',
  'take an e-mail or a name that another record has': 'aceita um e-mail ou um nome que outro registro tem',
  'create a record from each line of a CSV file, or none if a line is bad':
    'cria um registro de cada linha de um arquivo CSV, ou nenhum se uma linha tiver problemas',
  'CSV whose first line names the columns; - is standard input; with all, a folder of them':
    'CSV cuja primeira linha tem os nomes das colunas; - é a entrada padrão; com all, uma pasta deles',
  'check all lines, and change nothing': 'verifica todas as linhas e não muda nada',
  'between the values; by default , ; or tab as in the first line':
    'entre os valores; por padrão , ; ou tab, como na primeira linha',
  'which column of the table a column of the file is': 'qual coluna da tabela é uma coluna do arquivo',
  'leave out the columns of the file that the table lacks': 'ignora as colunas do arquivo que a tabela não tem',
  'if a line is bad, write all lines to a new file, with what is wrong with each':
    'se uma linha tiver problemas, grava todas em um arquivo novo, com o que há de errado em cada uma',
  'leave out lines whose record exists': 'ignora linhas cujo registro existe',
  'correct the records that exist; an empty value leaves what is there':
    'corrige os registros que existem; um valor vazio deixa o que está lá',
  'create another record where one exists': 'cria outro registro onde já existe um',
  "write a tenant's data to a folder of CSV files, which can be imported":
    'grava os dados de um tenant em uma pasta de arquivos CSV, que podem ser importados',
  'where to write them; it is created': 'onde gravar; a pasta é criada',
  'back up the embedded store, also while the gateway runs':
    'faz um backup do banco embutido, mesmo com o gateway em execução',
  'where to write it; it replaces no file': 'onde gravar; não substitui nenhum arquivo',
  'restore a backup into the folder DATA_DIR': 'restaura um backup na pasta DATA_DIR',
  'a backup of this version or an earlier one': 'um backup desta versão ou de uma anterior',
  'replace the store that is there, for good': 'substitui o banco que está lá, para sempre',
  'list who was erased, by ids alone, or erase them again after a restore':
    'lista quem foi apagado, somente com ids, ou apaga de novo após uma restauração',
  'a list that this command printed': 'uma lista que este comando imprimiu',
  'copy an embedded store, keys included, to the configured one':
    'copia um banco embutido, com suas chaves, para o banco configurado',
  'the DATA_DIR of the store: its gateway has to be stopped, one of version 1 has to run':
    'a DATA_DIR do banco: seu gateway tem de estar parado; um da versão 1 tem de estar em execução',

  // Arguments
  'Expected {0}.': 'Informe {0}.',
  'pt or en': 'pt ou en',
  'a duration such as 90d, 12h or 30m': 'uma duração, como 90d, 12h ou 30m',
  "a tenant's id, as in `npm run admin -- tenant list`": 'o id de um tenant, como em `npm run admin -- tenant list`',
  'a name of 1 to 255 characters that is not blank': 'um nome de 1 a 255 caracteres que não esteja em branco',
  '1 to 10 letters of a-z': 'de 1 a 10 letras de a-z',
  "TITLE=COLUMN, as in 'Fone 2=telefone'": "TÍTULO=COLUNA, como em 'Fone 2=telefone'",
  "COLUMN=VALUE, as in 'telefone=11 98888-0001'": "COLUNA=VALOR, como em 'telefone=11 98888-0001'",
  'a time that has not passed': 'um horário que ainda não passou',
  'one character, or tab': 'um caractere, ou tab',
  'an encoding such as utf-8, windows-1252 or utf-16le': 'uma codificação, como utf-8, windows-1252 ou utf-16le',
  'an integer from {0} to {1}': 'um número inteiro de {0} a {1}',

  // Tables
  NAME: 'NOME',
  TENANT: 'TENANT',
  'ACTIVE KEYS': 'CHAVES ATIVAS',
  CREATED: 'CRIAÇÃO',
  WHEN: 'QUANDO',
  CHANGE: 'ALTERAÇÃO',
  REQUEST: 'REQUISIÇÃO',
  PREFIX: 'PREFIXO',
  PERMISSIONS: 'PERMISSÕES',
  STATE: 'ESTADO',
  EXPIRES: 'VALIDADE',
  'LAST USED': 'ÚLTIMO USO',
  KEY: 'CHAVE',
  OPERATION: 'OPERAÇÃO',
  'COLUMN OF {0}': 'COLUNA DE {0}',
  BECOMES: 'VIRA',
  'LINE {0}': 'LINHA {0}',
  Key: 'Chave',
  Prefix: 'Prefixo',
  Expires: 'Validade',
  never: 'nunca',
  all: 'todas',
  active: 'ativa',
  expired: 'expirada',
  revoked: 'revogada',
  '(empty)': '(vazio)',
  '(left out)': '(ignorada)',

  // Tenants and keys
  'Tenant {0} was created.': 'O tenant {0} foi criado.',
  'Its first key: npm run admin -- key issue --tenant {0} --name NAME':
    'A primeira chave: npm run admin -- key issue --tenant {0} --name NOME',
  'There are no tenants yet: npm run admin -- tenant create NAME':
    'Ainda não há tenants: npm run admin -- tenant create NOME',
  'Deletes the tenant {0}, its keys and all its data.': 'Exclui o tenant {0}, suas chaves e todos os seus dados.',
  'Tenant {0} was deleted': 'O tenant {0} foi excluído',
  'There are no keys yet: npm run admin -- key issue --tenant {0} --name NAME':
    'Ainda não há chaves: npm run admin -- key issue --tenant {0} --name NOME',
  'The old key, {0}, works until {1}.': 'A chave antiga, {0}, funciona até {1}.',
  'The old key, {0}, no longer works.': 'A chave antiga, {0}, não funciona mais.',
  'Revokes the key {0} ({1}) of {2}.': 'Revoga a chave {0} ({1}) de {2}.',
  'Key {0} is revoked: requests with it are refused.': 'A chave {0} está revogada: requisições com ela são recusadas.',
  'Key {0} may call {1}.': 'A chave {0} pode chamar {1}.',
  'Key {0} may call all functions.': 'A chave {0} pode chamar todas as funções.',
  "KEY is a key's id or prefix, not the key itself: expected {0}":
    'KEY é o id ou o prefixo de uma chave, não a própria chave: informe {0}',
  'there is no key with this id or prefix': 'não há chave com este id ou prefixo',
  'List them: npm run admin -- key list': 'Liste as chaves: npm run admin -- key list',
  'Save the key now: only its hash is stored, and it is not shown again.':
    'Guarde a chave agora: somente o hash fica armazenado, e ela não é mostrada de novo.',

  // Usage and limits
  'Key {0} may make {1}.': 'A chave {0} pode fazer {1}.',
  'Key {0} may make {1}, as its tenant has it.': 'A chave {0} pode fazer {1}, como seu tenant define.',
  'Each key of the tenant without limits of its own may make {0}.':
    'Cada chave do tenant sem limites próprios pode fazer {0}.',
  'There were no calls in the last {0} days.': 'Não houve chamadas nos últimos {0} dias.',
  '{0} calls a minute ({1} at once)': '{0} chamadas por minuto ({1} de uma vez)',
  '{0} calls a day': '{0} chamadas por dia',
  '{0} calls a month': '{0} chamadas por mês',
  'any number of calls': 'qualquer número de chamadas',

  // Records
  'No change of {0} is kept.': 'Nenhuma alteração de {0} é guardada.',
  "None of the tenant's {0} has {1}.": 'Nenhum registro do tenant em {0} tem {1}.',
  'There are more: --limit {0}': 'Há mais: --limit {0}',
  'Nothing was changed.': 'Nada foi mudado.',
  'Nothing was changed. With --allow-duplicates several records may have it.':
    'Nada foi mudado. Com --allow-duplicates, mais de um registro pode tê-lo.',
  'Changed {0} ({1})': '{0} ({1}) foi corrigido',
  'Erases the student {0} and everything that refers to it.': 'Apaga o aluno {0} e tudo o que se refere a ele.',
  'Student {0} was erased': 'O aluno {0} foi apagado',
  'Backups still have it: for a restore, keep the list of `npm run --silent admin -- erasures > FILE` outside of the store.':
    'Os backups ainda têm esses dados: para uma restauração, guarde a lista de `npm run --silent admin -- erasures > ARQUIVO` fora do banco.',
  'the tenant has no {0} in {1}': 'o tenant não tem {0} em {1}',
  'Name a record by its {0}: npm run admin -- find {1} TEXT --tenant {2}':
    'Informe um registro pelo {0}: npm run admin -- find {1} TEXTO --tenant {2}',
  '{0} is the {1} of several {2}': '{0} é o {1} de mais de um registro em {2}',
  'Name one by its id: {0}': 'Informe um deles pelo id: {0}',
  '{0}: {1}: expected one of {2}.': '{0}: {1}: informe uma destas: {2}.',
  '{0} has no column id of type uuid, by which a record is found':
    '{0} não tem uma coluna id do tipo uuid, pela qual um registro é encontrado',
  'With --allow-duplicates no record is looked for.': 'Com --allow-duplicates nenhum registro é procurado.',
  'id or {0}': 'id ou {0}',
  'There is no resource {0}': 'Não há o recurso {0}',
  'The resources are {0}.': 'Os recursos são {0}.',

  // Import and export
  '--map names {0}, which is not a column': '--map tem {0}, que não é uma coluna',
  'unknown column {0}': 'coluna desconhecida {0}',
  'columns {0} and {1} are both {2}': 'as colunas {0} e {1} são ambas {2}',
  '--map names {0}, which is not in the first line': '--map tem {0}, que não está na primeira linha',
  'column {0} is missing': 'falta a coluna {0}',
  'and more': 'e mais',
  'Problems (left out)': 'Problemas (ignorada)',
  'must be a date that exists, as YYYY-MM-DD or DD/MM/YYYY':
    'Informe uma data que exista, como AAAA-MM-DD ou DD/MM/AAAA',
  'must be a time, as 2026-12-31T18:00:00Z': 'Informe um horário, como 2026-12-31T18:00:00Z',
  'must be a time without a zone, as 2026-12-31T18:00:00': 'Informe um horário sem fuso, como 2026-12-31T18:00:00',
  'must be a number, as 1234.56 or 1.234,56': 'Informe um número, como 1234.56 ou 1.234,56',
  'must be true or false, sim or não, or ativo or inativo': 'Informe true ou false, sim ou não, ou ativo ou inativo',
  'must not be blank': 'Preencha este campo',
  'must be JSON': 'Informe um JSON válido',
  'is the {0} of several {1}: give the id': 'É o {0} de mais de um registro em {1}: informe o id',
  "none of the tenant's {0} has this {1}": 'Nenhum registro do tenant em {0} tem este {1}',
  "is that of one of the tenant's {0}": 'Já é de um registro do tenant em {0}',
  "is the same as one of the tenant's {0}": 'Esta linha é igual a um registro do tenant em {0}',
  'is also that of line {0}': 'Também está na linha {0}',
  'is the same as line {0}': 'Esta linha é igual à linha {0}',
  '--update expects a column {0}': '--update precisa de uma coluna {0}',
  '{0} {1}': '{0}: {1}',
  'line {0}: {1}': 'linha {0}: {1}',
  'and more, which --json prints': 'e mais, que --json imprime',
  'Expected {0} with one file.': 'Informe {0} com um arquivo.',
  'standard input': 'entrada padrão',
  '{0} is a folder: expected a CSV file': '{0} é uma pasta: informe um arquivo CSV',
  'There is no folder {0}': 'Não há a pasta {0}',
  '{0} has no CSV file': '{0} não tem nenhum arquivo CSV',
  ' (an id or {0})': ' (um id ou {0})',
  'The first line names the columns: {0}.': 'A primeira linha tem os nomes das colunas: {0}.',
  '{0} is empty: expected CSV with a header': '{0} está vazio: informe um CSV com cabeçalho',
  '{0}, line {1}: {2}': '{0}, linha {1}: {2}',
  'has {0} columns: the file may not be CSV': 'tem {0} colunas: o arquivo talvez não seja CSV',
  'Correct this line, then delete this text': 'Corrija esta linha e depois apague este texto',
  'does not fit the header (values: {0}, columns: {1})': 'Não combina com o cabeçalho (valores: {0}, colunas: {1})',
  'has a value in column {0}, which has no name': 'Tem um valor na coluna {0}, que não tem nome',
  '{0} has no line below its header: nothing was imported.':
    '{0} não tem nenhuma linha abaixo do cabeçalho: nada foi importado.',
  'Nothing was imported from {0}; bad lines: {1} of {2}': 'Nada foi importado de {0}; linhas com problemas: {1} de {2}',
  'Correct them and import the file again: all lines are imported, or none. --problems FILE writes the lines of one file, with what is wrong with each.':
    'Corrija e importe o arquivo de novo: todas as linhas são importadas, ou nenhuma. --problems ARQUIVO grava as linhas de um arquivo, com o que há de errado em cada uma.',
  'If the file was imported before: --skip-existing leaves out the lines whose records exist, --update corrects these, and --allow-duplicates creates others.':
    'Se o arquivo já foi importado: --skip-existing ignora as linhas cujos registros existem, --update corrige esses registros, e --allow-duplicates cria outros.',
  "Say what a column is with --map 'Its name=column', or leave out what is unknown with --ignore-unknown.":
    "Diga o que é uma coluna com --map 'Nome dela=coluna', ou ignore o que é desconhecido com --ignore-unknown.",
  '{0} has all lines, with what is wrong with each: correct it, and import it with: {1}':
    '{0} tem todas as linhas, com o que há de errado em cada uma: corrija esse arquivo e importe-o com: {1}',
  'Created: {0}.': 'Criados: {0}.',
  'Updated: {0}.': 'Corrigidos: {0}.',
  'Skipped: {0}.': 'Ignorados: {0}.',
  'Nothing is wrong, and nothing was changed. Without --dry-run: {0}':
    'Nada está errado, e nada foi mudado. Sem --dry-run: {0}',
  '{0}: {1} lines': '{0}: {1} linhas',
  'a value continues after its closing quote; write a quote within a value twice':
    'um valor continua após as aspas finais; escreva duas vezes as aspas dentro de um valor',
  'a quote is in a value that is not quoted; quote the value and write the quote twice':
    'há aspas em um valor que não está entre aspas; ponha o valor entre aspas e escreva as aspas duas vezes',
  'a quote is not closed': 'as aspas não foram fechadas',
  'Save the file as UTF-8, or name its encoding: Excel writes --encoding windows-1252.':
    'Salve o arquivo em UTF-8, ou informe a codificação: a do Excel é --encoding windows-1252.',
  '{0}, line {1}: not {2}; nothing was imported': '{0}, linha {1}: não é {2}; nada foi importado',
  '{0} is UTF-8, and not {1}: nothing was imported': '{0} é UTF-8, e não {1}: nada foi importado',
  'Leave out --encoding.': 'Deixe de fora --encoding.',
  '{0} is a workbook (.xlsx, .xls or .ods): nothing was imported':
    '{0} é uma pasta de trabalho (.xlsx, .xls ou .ods): nada foi importado',
  'Save its sheet as CSV: in Excel "File, Save As, CSV UTF-8 (Comma delimited)", in Portuguese "Arquivo, Salvar como, CSV UTF-8 (Delimitado por vírgulas)".':
    'Salve a planilha como CSV: no Excel, "Arquivo, Salvar como, CSV UTF-8 (Delimitado por vírgulas)".',
  'There is {0} already: nothing was exported': 'Já existe {0}: nada foi exportado',
  'Exported to {0}: {1}.': 'Exportado para {0}: {1}.',

  // Backups, erasures and copies
  'Stop the gateway, restore, and start it again; or set DATA_DIR to a new folder. Nothing was restored.':
    'Pare o gateway, restaure e inicie o gateway de novo; ou defina DATA_DIR como uma pasta nova. Nada foi restaurado.',
  'Keys that were revoked since the backup work again: revoke them before you start the gateway.':
    'As chaves revogadas desde o backup voltam a funcionar: revogue essas chaves antes de iniciar o gateway.',
  'Of {0} revoked and expired keys {1} had come back, and were revoked.':
    'De {0} chaves revogadas e expiradas, {1} tinham voltado e foram revogadas.',
  'Students and tenants that were erased since the backup are back. Erase them again before you start the gateway, with a list that was kept: npm run admin -- erasures --repeat FILE':
    'Os alunos e tenants apagados desde o backup estão de volta. Apague-os de novo antes de iniciar o gateway, com uma lista guardada: npm run admin -- erasures --repeat ARQUIVO',
  'A backup of version 1 is restored by version 1.': 'Um backup da versão 1 é restaurado pela versão 1.',
  'There is no store in {0}': 'Não há banco em {0}',
  'There is {0} already: name a new file': 'Já existe {0}: informe um arquivo novo',
  'Backed up {0} to {1}, {2}.': 'Backup de {0} em {1}, {2}.',
  'Backed up {0}': 'Backup: {0}',
  'Unpacked {0}': 'Descompactado: {0}',
  'There is no file {0}': 'Não há o arquivo {0}',
  'Set DATA_DIR to a new folder, or stop the gateway and replace that store for good with --replace.':
    'Defina DATA_DIR como uma pasta nova, ou pare o gateway e substitua esse banco para sempre com --replace.',
  'Replaces the store in the folder {0} ({1}) with {2}.': 'Substitui o banco na pasta {0} ({1}) por {2}.',
  'There is a store in {0} already: nothing was restored': 'Já há um banco em {0}: nada foi restaurado',
  'Restored {0} to {1}. New migrations: {2}.': '{0} foi restaurado em {1}. Novas migrações: {2}.',
  'The record of erasures in the store that was there cannot be read: {0}':
    'O registro de quem foi apagado, no banco que estava lá, não pode ser lido: {0}',
  'Back up Postgres and Supabase with pg_dump: see docs/backup.md.':
    'Faça o backup de Postgres e Supabase com pg_dump: veja docs/backup.md.',
  'This is for the embedded store, and DATABASE_URL or SUPABASE_URL is set':
    'Isto é para o banco embutido, e DATABASE_URL ou SUPABASE_URL está definida',
  'DATA_DIR=:memory: keeps no store: set it to the folder of a store':
    'DATA_DIR=:memory: não guarda nenhum banco: defina a pasta de um banco',
  '{0} is damaged, or no backup: {1}': '{0} está danificado, ou não é um backup: {1}',
  '{0} is not a backup of a store': '{0} não é um backup de um banco',
  'Of {0} erased students and tenants {1} had come back, and were erased again.':
    'De {0} alunos e tenants apagados, {1} tinham voltado e foram apagados de novo.',
  'Expected what `npm run --silent admin -- erasures > FILE` writes, in UTF-8. Nothing was erased.':
    'Informe o que `npm run --silent admin -- erasures > ARQUIVO` grava, em UTF-8. Nada foi apagado.',
  '{0} is not a list of erasures': '{0} não é uma lista de quem foi apagado',
  'Copied {0}: {1}.': '{0} foi copiado: {1}.',
  'Copied {0} rows': 'Linhas copiadas: {0}',
  'A gateway serves the store: stop it first, because what it writes meanwhile would be lost':
    'Um gateway usa o banco: pare-o antes, porque o que ele gravar enquanto isso se perderia',
  '{0} has a store of version 1, and no gateway of version 1 serves it: {1}':
    '{0} tem um banco da versão 1, e nenhum gateway da versão 1 o usa: {1}',
  'Start one on a port that no client uses, such as PORT=3999 npm start, and copy again.':
    'Inicie um em uma porta que nenhum cliente usa, como PORT=3999 npm start, e copie de novo.',
  'The database lacks migrations of the store': 'Faltam no banco de destino migrações do banco de origem',
  'Run `npm run migrate` of this version.': 'Execute `npm run migrate` desta versão.',
  '{0} has rows already: nothing was copied': '{0} já tem linhas: nada foi copiado',
  'These tables refer to each other: {0}': 'Estas tabelas se referem umas às outras: {0}',

  // Connections and failures
  'Store: the Data API of {0}': 'Banco: a Data API de {0}',
  'Store: {0}': 'Banco: {0}',
  'a temporary folder': 'uma pasta temporária',
  'Store: embedded Postgres, data in {0}': 'Banco: Postgres embutido, dados em {0}',
  'Store: embedded Postgres, data in {0}, because neither DATABASE_URL nor DATA_DIR is set':
    'Banco: Postgres embutido, dados em {0}, porque nem DATABASE_URL nem DATA_DIR está definida',
  "A Supabase project's Data API cannot do this: set DATABASE_URL to the project's connection string instead of SUPABASE_URL":
    'A Data API de um projeto do Supabase não permite isto: em vez de SUPABASE_URL, defina DATABASE_URL com a connection string do projeto',
  'check DATABASE_URL': 'verifique DATABASE_URL',
  "check the user in DATABASE_URL, and the server's pg_hba.conf":
    'verifique o usuário em DATABASE_URL e o pg_hba.conf do servidor',
  'check the user and the password in DATABASE_URL': 'verifique o usuário e a senha em DATABASE_URL',
  'create the database, or check its name in DATABASE_URL': 'crie o banco, ou verifique seu nome em DATABASE_URL',
  'check that the server runs, and the host and port in DATABASE_URL':
    'verifique se o servidor está em execução, e o host e a porta em DATABASE_URL',
  'check the host in DATABASE_URL': 'verifique o host em DATABASE_URL',
  'The gateway that has {0} refuses the connection: {1}': 'O gateway que usa {0} recusa a conexão: {1}',
  'The connection to the database was lost: {0}; check whether the command took effect before you run it again':
    'A conexão com o banco caiu: {0}; verifique se o comando teve efeito antes de executá-lo de novo',
  'Cannot connect to {0}: {1}; {2}': 'Não foi possível conectar a {0}: {1}; {2}',
  'A migration is missing in the database: run `npm run migrate` with the same DATABASE_URL, or restart the gateway of an embedded store.':
    'Falta uma migração no banco: execute `npm run migrate` com a mesma DATABASE_URL, ou reinicie o gateway de um banco embutido.',
  'This server takes no writes, as a standby does: name the primary in DATABASE_URL, or all servers.':
    'Este servidor não aceita gravações, como um standby: informe em DATABASE_URL o primário, ou todos os servidores.',
  "Use the role that ran `npm run migrate`; the gateway's role may not administer.":
    'Use a role que executou `npm run migrate`; a role do gateway não pode administrar.',
  'Expected --yes, because there is no terminal to ask on.':
    'Informe --yes, porque não há um terminal em que perguntar.',
  '{0} This cannot be undone.\nType its name to go on: ':
    '{0} Isto não pode ser desfeito.\nDigite o nome para continuar: ',
  'That is another name: nothing was changed.': 'Esse é outro nome: nada foi mudado.',
  'See --help.': 'Veja --help.',
  'npm run admin -- tenant list shows the tenants with their ids. See --help.':
    'npm run admin -- tenant list mostra os tenants com seus ids. Veja --help.',
  "Write a text with blanks in quotes, as in 'Academia Aurora'. See --help.":
    "Escreva entre aspas um texto com espaços, como 'Academia Aurora'. Veja --help.",
  'Stop the process, or wait until it ends.': 'Pare o processo, ou espere que termine.',
};

/** Texts of other components: Commander, the embedded store, and the functions of the database. */
export const FOREIGN: Readonly<Record<string, string>> = {
  "missing required argument '{0}'": "falta o argumento obrigatório '{0}'",
  "option '{0}' argument missing": "falta o valor da opção '{0}'",
  "required option '{0}' not specified": "falta a opção obrigatória '{0}'",
  "option '{0}' argument '{1}' is invalid. {2}": "o valor '{1}' da opção '{0}' é inválido. {2}",
  "command-argument value '{0}' is invalid for argument '{1}'. {2}":
    "o valor '{0}' é inválido para o argumento '{1}'. {2}",
  "option '{0}' cannot be used with option '{1}'": "a opção '{0}' não pode ser usada com a opção '{1}'",
  "unknown option '{0}'\n(Did you mean one of {1}?)": "opção desconhecida '{0}'\n(Seria uma destas: {1}?)",
  "unknown option '{0}'\n(Did you mean {1}?)": "opção desconhecida '{0}'\n(Seria {1}?)",
  "unknown option '{0}'": "opção desconhecida '{0}'",
  "unknown command '{0}'\n(Did you mean one of {1}?)": "comando desconhecido '{0}'\n(Seria um destes: {1}?)",
  "unknown command '{0}'\n(Did you mean {1}?)": "comando desconhecido '{0}'\n(Seria {1}?)",
  "unknown command '{0}'": "comando desconhecido '{0}'",
  "too many arguments for '{0}'. Expected {1} argument but got {2}: {3}.":
    "argumentos demais para '{0}': aceita {1}, e recebeu {2}: {3}.",
  "too many arguments for '{0}'. Expected {1} arguments but got {2}: {3}.":
    "argumentos demais para '{0}': aceita {1}, e recebeu {2}: {3}.",
  'Creating a store in {0}': 'Criando um banco em {0}',
  '{0} has a store of version 1: set DATA_DIR to a new folder, and copy the store there as docs/stores.md says ("From version 1")':
    '{0} tem um banco da versão 1: defina DATA_DIR como uma pasta nova e copie o banco para ela como diz docs/stores.md ("From version 1")',
  '{0} has files of something else, such as {1}: set DATA_DIR to a new folder, or to that of a store':
    '{0} tem arquivos de outra coisa, como {1}: defina DATA_DIR como uma pasta nova, ou como a de um banco',
  '{0} belongs to user {1}, and this process runs as user {2}: run it as user {3}, or set DATA_DIR to a folder that does not exist yet, such as {4}':
    '{0} é do usuário {1}, e este processo é do usuário {2}: execute como o usuário {3}, ou defina DATA_DIR como uma pasta que ainda não existe, como {4}',
  'The path of {0} is {1} bytes too long for a socket in it: set DATA_DIR to a shorter one':
    'O caminho de {0} é {1} bytes longo demais para um socket: defina DATA_DIR como um mais curto',
  'The path of {0} has a comma: set DATA_DIR to one without':
    'O caminho de {0} tem uma vírgula: defina DATA_DIR como um sem vírgula',
  '{0} is in use by process {1} on {2}, since {3}; stop it with: kill {4}':
    '{0} está em uso pelo processo {1} em {2}, desde {3}; para encerrá-lo: kill {4}',
  '{0} is in use by process {1} on {2}, since {3}': '{0} está em uso pelo processo {1} em {2}, desde {3}',
  '{0} is in use by another process': '{0} está em uso por outro processo',
  '{0} is in use by {1}': '{0} está em uso por {1}',
  '{0} cannot be used: {1}; create {2} first, or set DATA_DIR to another folder':
    '{0} não pode ser usada: {1}; crie {2} antes, ou defina DATA_DIR como outra pasta',
  '{0} cannot be used: {1}': '{0} não pode ser usada: {1}',
  'Postgres {0} made {1}, and the programs have version {2}: set POSTGRES_BIN to the programs of Postgres {3}':
    'O Postgres {0} criou {1}, e os programas são da versão {2}: defina POSTGRES_BIN como os programas do Postgres {3}',
  'there is no tenant {0}': 'não há o tenant {0}',
  'private.list_tenants() has them all.': 'private.list_tenants() mostra todos.',
  'there is no key {0}': 'não há a chave {0}',
  'private.list_keys() has them all.': 'private.list_keys() mostra todas.',
  'a key needs the permission for at least one function, and none of them is null':
    'uma chave precisa da permissão para ao menos uma função, e nenhuma delas é null',
  'null instead of the array means all functions; private.revoke_key ends a key.':
    'null em vez do array significa todas as funções; private.revoke_key encerra uma chave.',
  'no published function is named {0}': 'nenhuma função publicada se chama {0}',
  'Published are: {0}.': 'As publicadas são: {0}.',
  'the environment of a key is 1 to 10 letters of a-z, and not {0}':
    'o ambiente de uma chave tem de 1 a 10 letras de a-z, e não é {0}',
  'a key cannot expire at {0}, which has passed': 'uma chave não pode expirar em {0}, que já passou',
  'key {0} cannot be rotated: it is revoked or expired': 'a chave {0} não pode ser trocada: está revogada ou expirada',
  'Issue a new key.': 'Emita uma nova chave.',
  'key {0} was replaced by {1} already': 'a chave {0} já foi substituída por {1}',
  'Rotate that one. If it was lost, revoke it and rotate this one again.':
    'Troque essa. Se ela se perdeu, revogue-a e troque esta de novo.',
  'the overlap of two keys cannot be {0}': 'a sobreposição de duas chaves não pode ser {0}',
  'limits are per_minute, burst, per_day and per_month, from 1 to 999999999999, and not {0}':
    'os limites são per_minute, burst, per_day e per_month, de 1 a 999999999999, e não {0}',
  'a burst needs a limit per minute': 'burst precisa de um limite por minuto',
  'the tenant has no student {0}': 'o tenant não tem o aluno {0}',
  'rows of others in {0} refer by {1} to those of student {2}':
    'linhas de outros em {0} referem-se, por {1}, às do aluno {2}',
  'Change or delete these rows first, or let the column take null.':
    'Antes mude ou exclua essas linhas, ou permita nulo na coluna.',
  'student {0} of tenant {1} cannot be erased: {2}': 'o aluno {0} do tenant {1} não pode ser apagado: {2}',
  'Nothing of the list was erased. Change what keeps the student, and repeat the list.':
    'Nada da lista foi apagado. Mude o que retém o aluno, e repita a lista.',
  'must satisfy {0}': 'Não satisfaz {0}',
  'must not be that of another record': 'Já é de outro registro',
};
