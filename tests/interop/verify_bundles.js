// Verify envelopes with sigstore's own verifier, each in a bundle with a public key: how many it takes.
//
//     node verify_bundles.js MODULES < {"pem": …, "envelopes": […]}
//
// MODULES has the packages @sigstore/bundle and @sigstore/verify; npm brings them along.
const { createRequire } = require("module");
const { createPublicKey } = require("crypto");
const from = createRequire(process.argv[2] + "/");
const { bundleFromJSON } = from("@sigstore/bundle");
const { Verifier, toSignedEntity } = from("@sigstore/verify");
const { pem, envelopes } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const key = { publicKey: createPublicKey(pem), validFor: () => true };
const root = { certificateAuthorities: [], timestampAuthorities: [], tlogs: [], ctlogs: [], publicKey: () => key };
const verifier = new Verifier(root, { tlogThreshold: 0, ctlogThreshold: 0, timestampThreshold: 0 });
let verified = 0;
for (const dsseEnvelope of envelopes) {
  const bundle = bundleFromJSON({
    mediaType: "application/vnd.dev.sigstore.bundle.v0.3+json",
    verificationMaterial: { publicKey: { hint: "" }, tlogEntries: [] },
    dsseEnvelope,
  });
  try {
    verifier.verify(toSignedEntity(bundle));
    verified += 1;
  } catch {
    // Not verified.
  }
}
console.log(JSON.stringify({ verified, version: from("@sigstore/verify/package.json").version }));
