// Reads cases from standard input, one JSON object a line, and prints the page's verdict on each.

import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";

const [, , judge, root] = process.argv;
const AsyncFunction = (async () => {}).constructor;
const make = new AsyncFunction("load", await readFile(judge, "utf-8"));
const verdict = await make((name) => import(`${root}/${name}`));
for await (const line of createInterface({ input: process.stdin })) console.log(JSON.stringify(await verdict(JSON.parse(line))));
