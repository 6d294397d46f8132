/* Search without a server: browsers start no workers from files, so from a folder the search runs in a hidden frame.
   Zensical loads this file first, as mkdocs.yml lists it among the polyfills. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentDocument;
      inside.open();
      inside.write(
        `<!doctype html><script>postMessage = data => parent.postMessage(data, "*")</script><script src="${url}"></script>`,
      );
      inside.close();
      this.ready = new Promise(done => this.frame.contentWindow.addEventListener("load", done));
      window.addEventListener("message", event => {
        if (event.source !== this.frame.contentWindow) return;
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        this.onmessage?.(message);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
