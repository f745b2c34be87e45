"""How the page looks: light and dark, wide and narrow.

The colours of lines and bars are Okabe and Ito's, which people with any kind of colour blindness
can tell apart; a heat map has one hue from light to dark.
"""

CSS = """
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #fff; --text: #1c2430; --quiet: #5b6675; --edge: #dde2e9;
  --grid: #e8ebf0; --track: #edf0f4; --good: #00745a; --bad: #b3411a; --badback: #fdf0ea;
  --c0: #9aa5b4; --c1: #0072b2; --c2: #d55e00; --c3: #009e73; --c4: #cc79a7; --c5: #b58900;
  --c6: #56b4e9;
  --h0: #eef4fa; --h1: #d6e5f3; --h2: #b5d1ea; --h3: #8cb8dd; --h4: #609bcc; --h5: #397db7;
  --h6: #1b5f9c; --h7: #083f73;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12161c; --card: #1a2029; --text: #e4e9f0; --quiet: #9aa7b8; --edge: #2c3542;
    --grid: #28303c; --track: #262e39; --good: #4fc9a4; --bad: #ff9d75; --badback: #33211a;
    --c0: #6d7888; --c1: #4da6de; --c2: #f08a3c; --c3: #3cc39a; --c4: #dd9bc1; --c5: #e0b93b;
    --c6: #8fd0f5;
    --h0: #1e2733; --h1: #1f3449; --h2: #21435f; --h3: #255579; --h4: #2f6b98; --h5: #4386b8;
    --h6: #69a8d6; --h7: #a5d2f2;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums;
}
main { max-width: 1120px; margin: 0 auto; padding: 32px 20px 48px; }
header { margin-bottom: 24px; }
h1 {
  font-size: 26px; line-height: 1.25; margin: 0 0 4px; overflow-wrap: anywhere; display: flex;
  flex-wrap: wrap; align-items: center; gap: 4px 12px;
}
h2 { font-size: 17px; line-height: 1.3; margin: 0 0 4px; }
p { margin: 0 0 8px; }
.quiet, .note { color: var(--quiet); }
.note { font-size: 13.5px; max-width: 95ch; }
.pill {
  display: inline-block; border-radius: 999px; padding: 1px 11px; font-size: 13px;
  font-weight: 600; border: 1px solid currentColor;
  color: var(--quiet);
}
.pill.good { color: var(--good); } .pill.bad { color: var(--bad); }
section {
  background: var(--card); border: 1px solid var(--edge); border-radius: 10px;
  padding: 20px 22px; margin: 0 0 18px; min-width: 0;
}
section.failure { border-color: var(--bad); background: var(--badback); overflow-wrap: anywhere; }
.advice { margin: 8px 0 0; padding: 0; list-style: none; counter-reset: n; }
.advice li {
  counter-increment: n; position: relative; padding: 8px 0 8px 42px; overflow-wrap: anywhere;
}
.advice li::before {
  content: counter(n); position: absolute; left: 0; top: 9px; width: 27px; height: 27px;
  border-radius: 50%; background: var(--c1); color: var(--card); font-weight: 700;
  text-align: center; line-height: 27px; font-size: 14px;
}
.advice b { display: block; font-size: 16.5px; line-height: 1.4; }
.tiles { display: grid; gap: 12px; margin: 0 0 18px; grid-template-columns: repeat(6, 1fr); }
.tile {
  background: var(--card); border: 1px solid var(--edge); border-radius: 10px; padding: 12px 14px;
  min-width: 0;
}
.tile span { display: block; color: var(--quiet); font-size: 12.5px; line-height: 1.35; }
.tile b { display: block; font-size: 21px; line-height: 1.3; white-space: nowrap; }
.pair { display: grid; gap: 18px; grid-template-columns: 1fr 1fr; margin-bottom: 18px; }
.pair section { margin: 0; }
.plot {
  display: grid; grid-template: "u u" 20px "y p" auto "x x" 24px / 52px 1fr; margin-top: 8px;
  font-size: 12px; color: var(--quiet);
}
.plot .unit { grid-area: u; width: 46px; text-align: right; white-space: nowrap; }
.plot .ys { grid-area: y; position: relative; }
.plot .ys span {
  position: absolute; right: 8px; transform: translateY(-50%); line-height: 1; white-space: nowrap;
}
.plot svg { grid-area: p; display: block; width: 100%; height: 100%; overflow: visible; }
.plot .xs { grid-area: x; position: relative; margin-left: 52px; }
.plot .xs span {
  position: absolute; top: 6px; transform: translateX(-50%); white-space: nowrap; line-height: 1;
}
.plot .xs span:first-child { transform: none; }
.plot.tall { grid-template-rows: 20px 220px 24px; }
.plot.rows { grid-template-rows: 20px clamp(72px, calc(var(--rows) * 22px), 420px) 24px; }
svg path { fill: none; }
.grid { stroke: var(--grid); stroke-width: 1; vector-effect: non-scaling-stroke; }
.mark {
  stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 4 3; vector-effect: non-scaling-stroke;
}
.line {
  stroke-width: 1.8; vector-effect: non-scaling-stroke; stroke-linejoin: round;
  stroke-linecap: round;
}
.line.k0 { stroke-width: 1.2; }
.row { fill: transparent; }
.row:hover { fill: var(--text); fill-opacity: .12; }
.legend { list-style: none; margin: 10px 0 0 52px; padding: 0; font-size: 13px; }
.legend li { display: inline-block; margin: 0 18px 2px 0; }
.legend i {
  display: inline-block; width: 14px; height: 4px; border-radius: 2px; margin-right: 7px;
  vertical-align: 3px;
}
.boxes i { width: 11px; height: 11px; vertical-align: -1px; } .boxes { margin-left: 0; }
.scale {
  display: flex; align-items: center; gap: 0; margin: 10px 0 0 52px; font-size: 12.5px;
  color: var(--quiet);
}
.scale i { width: 22px; height: 11px; }
.scale span:first-child { margin-right: 8px; } .scale span:last-child { margin-left: 8px; }
.bars { list-style: none; margin: 10px 0 0; padding: 0; font-size: 13.5px; }
.bars li {
  display: grid; grid-template-columns: minmax(70px, 40%) 1fr minmax(74px, auto); gap: 10px;
  align-items: center; padding: 2.5px 0;
}
.bars .name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.bars .value { text-align: right; white-space: nowrap; }
.track { background: var(--track); border-radius: 3px; height: 12px; overflow: hidden; }
.track i { display: block; height: 100%; border-radius: 3px; min-width: 1px; }
.stack {
  display: flex; height: 26px; border-radius: 5px; overflow: hidden; margin: 12px 0 0;
  background: var(--track); gap: 1px;
}
.stack i { display: block; height: 100%; }
.scroll { overflow-x: auto; margin: 8px -22px -8px; padding: 0 22px 8px; }
table { border-collapse: collapse; font-size: 13.5px; width: 100%; }
th {
  color: var(--quiet); font-weight: 600; font-size: 12.5px; text-align: right; padding: 5px 9px;
  border-bottom: 1px solid var(--edge); white-space: nowrap; vertical-align: bottom;
}
td { padding: 4px 9px; text-align: right; border-bottom: 1px solid var(--grid);
  white-space: nowrap; }
th:first-child, td:first-child { padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
tr:last-child td { border-bottom: 0; }
.left { text-align: left; }
td.long { white-space: normal; overflow-wrap: anywhere; min-width: 160px; }
td.bar { width: 22%; min-width: 80px; }
code { font: 13px/1.4 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
footer { color: var(--quiet); font-size: 13px; }
@media (max-width: 900px) { .tiles { grid-template-columns: repeat(3, 1fr); } }
@media (max-width: 760px) { .pair { grid-template-columns: minmax(0, 1fr); } }
@media (max-width: 560px) {
  main { padding: 18px 12px 32px; }
  section { padding: 16px 14px; }
  .scroll { margin: 8px -14px -8px; padding: 0 14px 8px; }
  .tiles { grid-template-columns: repeat(2, 1fr); gap: 10px; }
  h1 { font-size: 22px; }
}
@media print { section, .tile { break-inside: avoid; } }
""" + "\n".join(
    [
        *(
            f".line.k{n} {{ stroke: var(--c{n}); }} .b{n} {{ background: var(--c{n}); }}"
            for n in range(7)
        ),
        *(
            f".h{n} {{ fill: var(--h{n}); }} .s{n} {{ background: var(--h{n}); }}"
            for n in range(8)
        ),
    ]
)  # fmt: skip
