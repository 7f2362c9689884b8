"""The certificate document: what it embeds, and the page that follows from it. Format: ``docs/formats/certificate.md``.

Start with `contents.py`, then `page.py` and `html.py`. `page.js` and `damage.js` do in a browser what these do here.
"""
