// RFC 3161 time stamps over the text of a signed head. Mirrors docs/formats/timestamp.md, "Verification".

import { DerError, need, oidOf, parseDer, TAG, timeOf } from "./der.js";
import { equal } from "./encoding.js";
import { fail, Unchecked } from "./failure.js";
import { hashOf, isForStamps, leadsToRoot, parseCertificate, verifiesWith } from "./x509.js";

const MAX_STAMP = 64 * 1024;
const CLOCK_SKEW = 300;
const SIGNED_DATA = "1.2.840.113549.1.7.2";
const STAMP_INFO = "1.2.840.113549.1.9.16.1.4";
const CONTENT_TYPE = "1.2.840.113549.1.9.3";
const MESSAGE_DIGEST = "1.2.840.113549.1.9.4";

// Steps 1 to 3 need no root: the stamp is whole, granted, and over this text.
export async function readStamp(bytes, text) {
  const stamp = malformedAs(() => parseStamp(bytes));
  if (stamp === null) fail("timestamp-not-granted", "the authority did not grant the stamp");
  const hash = hashOf(stamp.hash);
  if (hash === null) fail("timestamp-hash-unsupported", `the stamp is over a hash of type ${stamp.hash}`);
  if (!equal(stamp.imprint, new Uint8Array(await crypto.subtle.digest(hash, text))))
    fail("timestamp-imprint-mismatch", "the time stamp is over another head");
  return stamp;
}

// Steps 4 to 6: who signed it, and whether a given root vouches for them.
export async function verifyStamp(stamp, roots, now) {
  try {
    return await verifySigner(stamp, roots, now);
  } catch (error) {
    if (!(error instanceof DerError || error instanceof TypeError)) throw error;
    return malformed(error);
  }
}

async function verifySigner(stamp, roots, now) {
  if (stamp.signers.length !== 1)
    fail("timestamp-signer-ambiguous", `${stamp.signers.length} parties signed the stamp; one must`);
  const [signer] = stamp.signers;
  const carried = stamp.certificates.map(parseCertificate);
  const named = carried.filter(({ issuer, serial }) => equal(issuer, signer.issuer) && equal(serial, signer.serial));
  if (named.length !== 1)
    fail("timestamp-signer-ambiguous", `the stamp carries ${named.length} certificates of its signer; it must carry one`);
  const [authority] = named;
  if (!isForStamps(authority))
    fail("timestamp-signer-purpose", `the certificate of ${authority.name} is not for time stamps alone`);
  if (!(await leadsToRoot(authority, carried, roots, stamp.time)))
    fail("timestamp-signer-untrusted", `no given root certificate vouches for ${authority.name} at the stamped time`);
  if (!(await isSigned(stamp, signer, authority.key)))
    fail("timestamp-signature-invalid", "the signature is not over this time stamp");
  if (stamp.time / 1000 - now > CLOCK_SKEW) fail("timestamp-from-future", "the head was stamped after now");
  return { time: new Date(stamp.time).toISOString(), authority: authority.name };
}

async function isSigned(stamp, { digest, attributes, algorithm, signature }, key) {
  const stated = new Map(attributes.children.map(({ children }) => [oidOf(children[0]), children[1].children[0]]));
  // The digests are announced before the content; one that was not is not made.
  if (!stamp.digests.includes(digest)) return false;
  const hash = hashOf(digest);
  if (hash === null) throw new Unchecked(`the hash ${digest} is not known here`);
  const own = new Uint8Array(await crypto.subtle.digest(hash, stamp.content));
  const type = stated.get(CONTENT_TYPE);
  if (type === undefined || oidOf(type) !== STAMP_INFO) return false;
  if (!equal(stated.get(MESSAGE_DIGEST)?.body ?? [], own)) return false;
  // The attributes are signed as the set that they are, not under the tag that they travel with.
  const signed = attributes.raw.slice();
  signed[0] = TAG.set;
  return verifiesWith(key, algorithm, hash, signature, signed);
}

function malformedAs(read) {
  try {
    return read();
  } catch (error) {
    // Parts that are not there are found as such.
    if (!(error instanceof DerError || error instanceof TypeError)) throw error;
    return malformed(error);
  }
}

const malformed = ({ message }) => fail("timestamp-malformed", `the bytes are not an RFC 3161 time stamp: ${message}`);

function parseStamp(bytes) {
  if (bytes.length > MAX_STAMP) throw new DerError(`more than ${MAX_STAMP} bytes`);
  const [status, token] = need(parseDer(bytes), TAG.sequence, 1).children;
  const code = need(need(status, TAG.sequence, 1).children[0], TAG.integer).body;
  if (code.length !== 1 || code[0] !== 0) return null;
  const [type, wrapped] = need(token, TAG.sequence, 2).children;
  if (oidOf(type) !== SIGNED_DATA) throw new DerError("no signed data");
  const [version, digests, content, ...rest] = need(need(wrapped, 0xa0, 1).children[0], TAG.sequence, 4).children;
  checkVersion(version);
  const [kind, inside] = need(content, TAG.sequence, 2).children;
  if (oidOf(kind) !== STAMP_INFO) throw new DerError("no time stamp inside");
  const stated = need(need(inside, 0xa0, 1).children[0], TAG.octets).body;
  const [first, policy, imprint, serial, time, ...extra] = need(parseDer(stated), TAG.sequence, 5).children;
  const [algorithm, hashed] = need(imprint, TAG.sequence, 2).children;
  oidOf(policy);
  need(serial, TAG.integer);
  checkVersion(first);
  checkOrder(extra, STATED);
  checkOrder(rest.slice(0, -1), [0xa0, 0xa1]);
  return {
    digests: need(digests, TAG.set).children.map(checkHash),
    content: stated,
    hash: checkHash(algorithm),
    imprint: need(hashed, TAG.octets).body,
    time: timeOf(time),
    certificates: (rest.find(({ tag }) => tag === 0xa0)?.children ?? []).map(({ raw }) => raw),
    signers: need(rest.at(-1), TAG.set).children.map(parseSigner),
  };
}

// Accuracy, ordering, nonce, the authority's name, extensions.
const STATED = [TAG.sequence, TAG.boolean, TAG.integer, 0xa0, 0xa1];

function checkVersion(node) {
  const { body } = need(node, TAG.integer);
  if (body.length !== 1 || body[0] & 0x80) throw new DerError("a version");
}

function checkAlgorithm(node) {
  const [oid, ...parameters] = need(node, TAG.sequence, 1).children;
  if (parameters.length > 1) throw new DerError("an algorithm");
  return oidOf(oid);
}

// SHA-2 has no parameters, or NULL.
function checkHash(node) {
  const oid = checkAlgorithm(node);
  if (hashOf(oid) !== null && node.children[1]) need(node.children[1], TAG.null);
  return oid;
}

function checkAttributes(node) {
  for (const each of node.children) {
    const [type, values, ...more] = need(each, TAG.sequence, 2).children;
    oidOf(type);
    need(values, TAG.set);
    if (more.length) throw new DerError("an attribute");
  }
  return node;
}

// Optional parts, each at most once and in this order.
function checkOrder(nodes, tags) {
  let at = -1;
  for (const { tag } of nodes) {
    const found = tags.indexOf(tag, at + 1);
    if (found < 0) throw new DerError(`a part of tag ${tag}`);
    at = found;
  }
}

function parseSigner(node) {
  const [version, named, digest, attributes, algorithm, signature, ...extra] = need(node, TAG.sequence, 6).children;
  checkVersion(version);
  checkOrder(extra, [0xa1]);
  if (named.children.length !== 2) throw new DerError("a signer");
  const [issuer, serial] = need(named, TAG.sequence, 2).children;
  return {
    issuer: issuer.raw,
    serial: need(serial, TAG.integer).body,
    digest: checkHash(digest),
    attributes: checkAttributes(need(attributes, 0xa0, 2)),
    algorithm: checkAlgorithm(algorithm),
    signature: need(signature, TAG.octets).body,
  };
}
