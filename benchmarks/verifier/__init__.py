"""Cases on which the page's verifier and the package's must give the same verdict."""
