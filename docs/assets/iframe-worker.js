/* Search without a server: browsers start no workers from files, so from a folder the search runs in a hidden frame.
   The name of this file tells the theme's offline plug-in that the part it would fetch is here already. */
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
        this.dispatchEvent(new MessageEvent("message", { data: event.data }));
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
