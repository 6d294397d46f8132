// Before the first paint, so that nothing flashes.
try {
  const kept = localStorage.getItem("penstock-theme");
  if (kept) document.documentElement.dataset.theme = kept;
} catch { /* private windows keep nothing */ }
