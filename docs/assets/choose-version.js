/* A list of versions in the head of each page, where the site has several. It works from a folder, too: the list is a
   script, since browsers read no other files beside a page that is itself a file. */
document.addEventListener("DOMContentLoaded", () => {
  const title = document.querySelector(".md-header__title");
  if (penstockVersions.length < 2 || !title) return;
  const base = new URL(JSON.parse(document.getElementById("__config").textContent).base + "/", location.href);
  const own = base.pathname.split("/").at(-2);
  const list = document.createElement("select");
  list.className = "penstock-versions";
  list.setAttribute("aria-label", "Version");
  for (const version of penstockVersions) list.add(new Option(version, version, false, version === own));
  list.addEventListener("change", () => { location.href = new URL(`../${encodeURIComponent(list.value)}/index.html`, base).href; });
  title.after(list);
});
