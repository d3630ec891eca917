/** A selection of series by the name of their metric and by labels. */
export type Selector = {
  readonly metric: string;
  readonly matchers: readonly { readonly label: string; readonly operator: string; readonly value: string }[];
};

/** What an expression of PromQL names: the series that it reads, and the labels that it groups and joins by. */
export type Names = { readonly selectors: readonly Selector[]; readonly labels: readonly string[] };

/** In this order: comment, text, range, number or duration, variable of a dashboard, word, operator. */
const TOKEN =
  /#.*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`|\[[^\]]*\]|\d[\w.]*|\$\w+|\$\{\w+\}|[A-Za-z_:][\w:]*|[=!<>~]+|[^\s]/g;
const WORD = /^[A-Za-z_:]/;
const LABEL_LISTS = ['by', 'without', 'on', 'ignoring', 'group_left', 'group_right'];
const OPERATORS = ['and', 'or', 'unless', 'atan2', 'bool', 'offset', 'inf', 'nan', 'start', 'end'];
const AGGREGATIONS =
  'sum avg min max count group stddev stdvar topk bottomk quantile count_values limitk limit_ratio'.split(' ');

/** Reads the names out of an expression. Throws where a selector has no name. */
export function readNames(expression: string): Names {
  const tokens = (expression.match(TOKEN) ?? []).filter((token) => !token.startsWith('#'));
  const selectors: Selector[] = [];
  const labels: string[] = [];
  for (let at = 0; at < tokens.length; at += 1) {
    const [token = '', next] = tokens.slice(at, at + 2);
    if (token === '{') throw new Error(`a selector without the name of a metric: ${expression}`);
    if (!WORD.test(token) || OPERATORS.includes(token.toLowerCase())) continue;
    if (LABEL_LISTS.includes(token)) {
      if (next !== '(') continue;
      const end = tokens.indexOf(')', at);
      labels.push(...tokens.slice(at + 2, end).filter((word) => word !== ','));
      at = end;
    } else if (next === '{') {
      const end = tokens.indexOf('}', at);
      selectors.push({ metric: token, matchers: readMatchers(tokens.slice(at + 2, end)) });
      at = end;
    } else if (next !== '(' && !AGGREGATIONS.includes(token)) {
      selectors.push({ metric: token, matchers: [] });
    }
  }
  return { selectors, labels };
}

function readMatchers(tokens: readonly string[]): Selector['matchers'] {
  const [label, operator = '', text = '', , ...rest] = tokens;
  if (label === undefined) return [];
  return [{ label, operator, value: text.slice(1, -1) }, ...readMatchers(rest)];
}
