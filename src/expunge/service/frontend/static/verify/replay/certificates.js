// What receipts say of the certificates of forgotten entries, against what these rest on.
// Those of one forgetting rest on every entry that it left live: the first of these to go ends them all.

// `over` are the forgettings that the edit ends.
export function checkCertificates(place, table, receipt, over) {
  checkNamed(place, table, receipt.ended.commitments);
  const [due, stated] = [table.end(over), new Set(receipt.ended.commitments)];
  const kept = [...due].filter((name) => !stated.has(name)).sort();
  if (kept.length) {
    place.contradicts(
      "ledger-certificate-kept",
      `${kept.length} certificates rest on what it took away, and do not end: ${kept[0]}`,
    );
  }
  const unfounded = [...stated].filter((name) => !due.has(name)).sort();
  if (unfounded.length)
    place.contradicts("ledger-certificate-unfounded", `${unfounded[0]} ends, and nothing that it rests on went`);
  const [expired, renewed] = [receipt.expired.commitments, receipt.renewed.commitments];
  checkStatus(place, table, expired, false);
  checkStatus(place, table, renewed, true);
  const again = new Set(renewed);
  const both = expired.find((name) => again.has(name));
  if (both) place.contradicts("ledger-certificate-status", `the certificate of ${both} expires and is renewed`);
  for (const name of expired) table.stateValidity(name, false);
  for (const name of renewed) table.stateValidity(name, true);
}

function checkStatus(place, table, names, valid) {
  checkNamed(place, table, names);
  for (const name of names) {
    if (table.now.get(name).valid !== valid) continue;
    const said = valid ? "is valid already" : "has expired already";
    place.contradicts("ledger-certificate-status", `the certificate of ${name} ${said}`);
  }
}

function checkNamed(place, table, names) {
  for (const name of names) {
    const found = table.now.get(name);
    if (found?.status !== "forgotten")
      place.contradicts("ledger-certificate-unknown", `a certificate of ${name}, which is ${found?.status ?? "not there"}`);
    if (found.anchor === null) place.contradicts("ledger-certificate-ended", `the certificate of ${name} ended before`);
  }
}
