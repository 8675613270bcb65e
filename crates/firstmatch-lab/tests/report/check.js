// Runs in a copy of the page, in a frame as wide as a window is to be; what it finds is told to the page around it.
addEventListener("load", () => {
  const faults = [];
  document.querySelectorAll("details").forEach((part) => (part.open = true));
  const name = (svg) => `${svg.closest("section")?.querySelector("h2")?.textContent}, ${svg.querySelector("title")?.textContent}`;
  const drawn = (element) => {
    const { width, height } = element.getBoundingClientRect();
    const { fill, stroke } = getComputedStyle(element);
    return width + height > 0 && (fill !== "none" || stroke !== "none");
  };
  const plots = [...document.querySelectorAll("figure > svg.plot")];
  for (const svg of plots) {
    const outer = svg.getBoundingClientRect();
    const marks = svg.querySelectorAll('[fill^="var(--s"], [stroke^="var(--s"]');
    if (![...marks].some(drawn)) faults.push(`${name(svg)}: nothing is drawn`);
    for (const mark of svg.querySelectorAll('[fill*="#"], [stroke*="#"]')) faults.push(`${name(svg)}: ${mark.outerHTML}`);
    const texts = [...svg.querySelectorAll("text")].filter((text) => text.textContent.trim());
    const boxes = texts.map((text) => [text.textContent.trim(), text.getBoundingClientRect()]);
    boxes.forEach(([text, box], index) => {
      const inside =
        box.left >= outer.left - 1 && box.right <= outer.right + 1 && box.top >= outer.top - 1 && box.bottom <= outer.bottom + 1;
      if (!inside) faults.push(`${name(svg)}: "${text}" is cut off`);
      for (const [other, next] of boxes.slice(index + 1)) {
        const across = Math.min(box.right, next.right) - Math.max(box.left, next.left);
        const up = Math.min(box.bottom, next.bottom) - Math.max(box.top, next.top);
        // Boxes have room for letters that these are not.
        if (across > 1 && up > box.height / 4 && up > next.height / 4) faults.push(`${name(svg)}: "${text}" lies on "${other}"`);
      }
    });
  }
  const paper = getComputedStyle(document.body);
  if (paper.color === paper.backgroundColor) faults.push("text has the colour of the page");
  if (document.documentElement.scrollWidth > innerWidth) faults.push(`wider than the window: ${document.documentElement.scrollWidth}`);
  for (const fetched of performance.getEntriesByType("resource")) faults.push(`fetched: ${fetched.name}`);
  const head = `${plots.length} plots, ${innerWidth} wide, ${paper.backgroundColor}`;
  parent.postMessage([head, ...faults.map((fault) => `fault: ${fault}`)].join("\n"), "*");
});
