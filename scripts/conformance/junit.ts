// The report as JUnit XML, which CI systems show.

import junit, { type Builder } from 'junit-report-builder';
import type { Report } from './report.ts';

/** A testsuite for each operation, and a testcase for each check. */
export function toJUnit({ sections, url, seed }: Report): string {
  // Its types say that the builder is the export `default`, and it is the module itself.
  const xml = (junit as unknown as Builder).newBuilder();
  for (const { title, seconds, outcomes } of sections) {
    const suite = xml.testSuite().name(title).time(seconds).property('url', url).property('seed', String(seed));
    for (const outcome of outcomes) {
      const testCase = suite.testCase().className(title).name(toXmlText(outcome.name));
      if (outcome.result === 'skipped') testCase.skipped().standardOutput(outcome.reason);
      else testCase.time(outcome.seconds);
      if (outcome.result !== 'failed') continue;
      const details = `${outcome.curl}\nexpected ${outcome.expected}\ngot ${outcome.got}`;
      testCase.failure(toXmlText(`expected ${outcome.expected}`)).stacktrace(toXmlText(details));
    }
  }
  return xml.build();
}

/** A text without the characters that XML 1.0 (2.2) has no way to write, and without the end of a CDATA section. */
function toXmlText(text: string): string {
  return text
    .toWellFormed()
    .replace(/[^\t\n\r\u{20}-\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]/gu, '\ufffd')
    .replaceAll(']]>', ']] >');
}
