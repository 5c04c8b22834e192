// Tooltips of charts, by pointer and by arrow keys; and tables that are open when the page is printed.
"use strict";
for (const plot of document.querySelectorAll(".plot")) {
  const points = JSON.parse(plot.dataset.tooltips);
  const cursor = plot.querySelector(".cursor");
  const tooltip = plot.querySelector(".tooltip");
  const narrow = plot.querySelector(".narrow");
  let shown = -1;
  const place = (point) => (narrow.offsetParent === null ? point.wide : point.narrow);
  const show = (at) => {
    shown = Math.max(0, Math.min(points.length - 1, at));
    const point = points[shown];
    tooltip.textContent = "";
    const head = document.createElement("strong");
    head.textContent = point.head;
    tooltip.append(head, ...point.lines.map(([name, value]) => {
      const line = document.createElement("div");
      line.textContent = name + ": " + value;
      return line;
    }));
    tooltip.hidden = cursor.hidden = false;
    const x = place(point) * plot.clientWidth;
    cursor.style.left = x + "px";
    const right = x + 8 + tooltip.offsetWidth > plot.clientWidth;
    tooltip.style.left = Math.max(0, right ? x - 8 - tooltip.offsetWidth : x + 8) + "px";
  };
  const hide = () => { tooltip.hidden = cursor.hidden = true; };
  if (points.length === 0) continue;
  const showNearest = (event) => {
    const share = (event.clientX - plot.getBoundingClientRect().left) / plot.clientWidth;
    let nearest = 0;
    points.forEach((point, at) => {
      if (Math.abs(place(point) - share) < Math.abs(place(points[nearest]) - share)) nearest = at;
    });
    show(nearest);
  };
  plot.addEventListener("pointerdown", showNearest);
  plot.addEventListener("pointermove", showNearest);
  plot.addEventListener("pointerleave", hide);
  plot.addEventListener("blur", hide);
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: shown - 1, ArrowRight: shown + 1, Home: 0, End: points.length - 1 }[event.key];
    if (event.key === "Escape") hide();
    if (step === undefined) return;
    event.preventDefault();
    show(step);
  });
}
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details:not(.run)")) details.open = true;
});
