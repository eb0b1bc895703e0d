"use strict";
// What scrolls sideways on this screen can be reached with the keyboard.
(() => {
  const wide = "article pre, article .table-wrapper, article .cell_output, article .output, article .math-wrapper";
  const mark = () => {
    for (const part of document.querySelectorAll(wide)) {
      if (part.scrollWidth > part.clientWidth && getComputedStyle(part).overflowX !== "visible") part.tabIndex = 0;
      else part.removeAttribute("tabindex");
    }
  };
  addEventListener("load", mark);
  addEventListener("resize", mark);
})();
