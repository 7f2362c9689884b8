// The page's verdict on cases: the code of the first failure, or null. `load` imports a module of the page by its path.
// Run in a browser by the tests and in Node by the benchmark; so it is the body of a function, without imports.

const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const names = ["bundle_format", "bundle", "certificate", "checkpoint", "cosignature", "envelope", "event", "ledger"];
const loaded = [...names, "merkle", "proof", "receipt", "timestamp", "trust", "x509"];
const page = Object.assign({}, ...(await Promise.all(loaded.map((name) => load(`verify/${name}.js`)))));

async function head(note, trust) {
  return page.verifyCheckpoint(note, trust.keys);
}

async function leaf(file, { keys }) {
  const envelope = page.parseEnvelope(file);
  await page.verifyEnvelope(envelope, keys);
  const statement = page.parseStatement(envelope.payload);
  return statement.type === page.EVENT_TYPE ? page.parseEvent(statement) : page.parseReceipt(statement);
}

const JUDGES = {
  key: () => {},
  leaf: ({ file }, trust) => leaf(bytes(file), trust),
  // A receipt in any spelling of DSSE, and its place as the leaf that it is.
  async receipt({ file, proof }, trust) {
    const envelope = page.readEnvelope(bytes(file));
    await page.verifyEnvelope(envelope, trust.keys);
    const statement = page.parseStatement(envelope.payload);
    statement.type === page.EVENT_TYPE ? page.parseEvent(statement) : page.parseReceipt(statement);
    await JUDGES.inclusion({ file: btoa(String.fromCharCode(...page.envelopeBytes(envelope))), proof }, trust);
  },
  async inclusion({ file, proof }, trust) {
    const { index, path, note } = page.parseInclusionProof(bytes(proof));
    const { size, root } = await head(note, trust);
    await page.verifyInclusion(await page.leafHash(bytes(file)), index, size, path, root);
  },
  async head({ file, now, maxAge }, trust) {
    const note = page.parseNote(bytes(file));
    await head(note, trust);
    if (trust.witnesses.length) await page.verifyCosignatures(note, { ...trust, maxAge }, now);
  },
  extension: ({ file, proof }, trust) => page.verifyExtension(bytes(file), bytes(proof), trust.keys),
  async bundle({ file }, trust) {
    const found = await page.parseBundle(bytes(file));
    const envelope = page.readEnvelope(found.receipt);
    await page.verifyEnvelope(envelope, trust.keys);
    const statement = page.parseStatement(envelope.payload);
    if (statement.type === page.EVENT_TYPE)
      throw Object.assign(new Error(), { name: "statement-predicate-type-mismatch" });
    await page.checkBundle(found, page.parseReceipt(statement));
  },
  async certificate({ file }, trust) {
    const document = bytes(file);
    const data = await page.findData(document);
    await page.verifyCertificate(await page.readCertificate(data), trust, () => {});
    if (new TextDecoder("latin1").decode(document.subarray(0, 5)) !== "%PDF-") await page.comparePage(document, data);
  },
  async ledger({ leaves, file, seen, now }, trust) {
    const note = page.parseNote(bytes(file));
    const lines = leaves.map(bytes);
    await page.verifyCheckpoint(note, await page.headKeys(lines, trust.keys));
    const times = seen.map(({ size, root, time }) => ({ head: { size: BigInt(size), root: bytes(root) }, time }));
    await page.verifyLedger(lines, [note], trust.keys, { now, seen: times });
  },
  async stamp({ file, text, now }, trust) {
    await page.verifyStamp(await page.readStamp(bytes(file), bytes(text)), trust.roots, now);
  },
};

return async function judge({ kind, trust, ...given }) {
  try {
    await JUDGES[kind](given, await page.readTrust(trust));
    return null;
  } catch (error) {
    // What is no failure of a check is a defect, and says so.
    return /^[a-z0-9]+(-[a-z0-9]+)+$/.test(error.name) ? error.name : `defect: ${error.stack}`;
  }
};
