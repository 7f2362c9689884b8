// Inclusion and consistency in an RFC 6962 tree, folded from the bottom up (RFC 9162 §2.1.3.2, §2.1.4.2).
// Mirrors docs/formats/merkle-log.md. Sizes and indices are BigInt; take size and root from one verified head.

import { equal, join, sha256, toHex } from "./encoding.js";
import { fail } from "./failure.js";

const HASH_SIZE = 32;
const MAX_TREE = 2n ** 63n - 1n;

export const leafHash = (bytes) => sha256(join(Uint8Array.of(0), bytes));
const nodeHash = (left, right) => sha256(join(Uint8Array.of(1), left, right));

export async function verifyInclusion(leaf, index, size, path, root) {
  checkSize(size);
  checkHashes(leaf, root, ...path);
  if (index < 0n || index >= size) fail("inclusion-index-out-of-range", `there is no leaf ${index} in a tree of ${size}`);
  // The path turns at every level below the point where the ways to this leaf and to the last leaf part;
  // above it, a level has a sibling only where the leaf lies to the right.
  const inner = bitLength(index ^ (size - 1n));
  const needed = inner + bitCount(index >> BigInt(inner));
  if (path.length !== needed)
    fail("inclusion-path-length", `leaf ${index} of ${size} needs ${needed} hashes, not ${path.length}`);
  let [node, last, digest] = [index, size - 1n, leaf];
  for (const sibling of path) {
    while (node === last && !(node & 1n)) [node, last] = [node >> 1n, last >> 1n];
    digest = node & 1n ? await nodeHash(sibling, digest) : await nodeHash(digest, sibling);
    [node, last] = [node >> 1n, last >> 1n];
  }
  if (!equal(digest, root)) {
    fail("inclusion-root-mismatch", `leaf ${index} leads to root ${toHex(digest)}, not ${toHex(root)}`);
  }
}

export async function verifyConsistency(oldSize, oldRoot, newSize, newRoot, path) {
  checkSize(oldSize);
  checkSize(newSize);
  checkHashes(oldRoot, newRoot, ...path);
  const empty = await sha256(new Uint8Array());
  for (const [size, root] of [
    [oldSize, oldRoot],
    [newSize, newRoot],
  ]) {
    if (size === 0n && !equal(root, empty))
      fail("empty-root-mismatch", `an empty tree has root ${toHex(empty)}, not ${toHex(root)}`);
  }
  if (oldSize > newSize) fail("consistency-sizes-reversed", `the log shrank from ${oldSize} to ${newSize} leaves`);
  if (oldSize === 0n || oldSize === newSize) {
    if (path.length)
      fail("consistency-path-length", `sizes ${oldSize} and ${newSize} need no hashes, not ${path.length}`);
    if (oldSize === newSize && !equal(oldRoot, newRoot)) {
      fail("consistency-fork", `two roots at size ${oldSize}: ${toHex(oldRoot)} and ${toHex(newRoot)}`);
    }
    return;
  }
  await foldConsistency(oldSize, oldRoot, newSize, newRoot, path);
}

// Rebuilds both roots from one path; 0 < oldSize < newSize.
async function foldConsistency(oldSize, oldRoot, newSize, newRoot, path) {
  let [node, last] = [oldSize - 1n, newSize - 1n];
  // Climb to the widest complete subtree that ends the older tree.
  while (node & 1n) [node, last] = [node >> 1n, last >> 1n];
  const inner = bitLength(node ^ last);
  const needed = inner + bitCount(node >> BigInt(inner)) + (node ? 1 : 0);
  if (path.length !== needed) {
    fail("consistency-path-length", `sizes ${oldSize} and ${newSize} need ${needed} hashes, not ${path.length}`);
  }
  const hashes = [...path];
  let older = node ? hashes.shift() : oldRoot;
  let newer = older;
  for (const sibling of hashes) {
    while (node === last && !(node & 1n)) [node, last] = [node >> 1n, last >> 1n];
    if (node & 1n) older = await nodeHash(sibling, older);
    newer = node & 1n ? await nodeHash(sibling, newer) : await nodeHash(newer, sibling);
    [node, last] = [node >> 1n, last >> 1n];
  }
  if (!equal(older, oldRoot))
    fail("consistency-old-root-mismatch", `the path leads to old root ${toHex(older)}, not ${toHex(oldRoot)}`);
  if (!equal(newer, newRoot))
    fail("consistency-new-root-mismatch", `the path leads to new root ${toHex(newer)}, not ${toHex(newRoot)}`);
}

// Root of a tree, leaf by leaf: the complete subtrees so far, the largest first.
export class TreeRoot {
  constructor() {
    this.size = 0;
    this.peaks = [];
  }

  // Appends a leaf; → its hash.
  async add(bytes) {
    const leaf = await leafHash(bytes);
    let node = leaf;
    for (let size = this.size; size % 2 === 1; size = (size - 1) / 2) node = await nodeHash(this.peaks.pop(), node);
    this.peaks.push(node);
    this.size += 1;
    return leaf;
  }

  async digest() {
    if (!this.peaks.length) return sha256(new Uint8Array());
    let node = this.peaks.at(-1);
    for (const peak of this.peaks.slice(0, -1).toReversed()) node = await nodeHash(peak, node);
    return node;
  }
}

const bitLength = (number) => (number === 0n ? 0 : number.toString(2).length);
const bitCount = (number) => number.toString(2).replaceAll("0", "").length;

function checkSize(size) {
  if (size < 0n || size > MAX_TREE) fail("tree-size-out-of-range", `a tree has 0 to 2^63 - 1 leaves, not ${size}`);
}

function checkHashes(...hashes) {
  for (const digest of hashes) {
    if (digest.length !== HASH_SIZE) fail("hash-length-invalid", `a hash has ${HASH_SIZE} bytes, not ${digest.length}`);
  }
}
