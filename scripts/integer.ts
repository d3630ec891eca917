import { InvalidArgumentError } from 'commander';

/** Makes the parser of an option that is an integer within bounds. */
export function readInteger(min: number, max: number): (text: string) => number {
  return (text) => {
    const number = /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
    if (number >= min && number <= max) return number;
    throw new InvalidArgumentError(`Expected an integer from ${min} to ${max}.`);
  };
}
