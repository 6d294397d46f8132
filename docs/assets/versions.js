/* The versions of the site, the newest first. `scripts/site_versions.py` writes this file into each of them. */
var penstockVersions = [];
