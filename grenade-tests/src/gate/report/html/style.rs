//! How the page looks: on a screen, on one that is narrow, and on paper.

/// The style sheet. A table `wide` has more columns than a narrow screen: there each cell is a line that begins with the
/// name of its column. Charts are as wide as the page, so their text is larger where they are small.
pub(super) const STYLE: &str = "\
body{font:15px/1.45 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff;\
overflow-wrap:break-word}\
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:1.2rem 0 .3rem}\
.verdict{display:inline-block;padding:.15rem .7rem;border:2px solid;border-radius:.3rem;font-weight:700;margin-right:.7rem}\
.pass{color:#14632e}.fail{color:#a11212}.inconclusive{color:#7a5200}\
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid #ccc;\
overflow-wrap:anywhere}\
th{overflow-wrap:normal}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}td.n{white-space:nowrap}td.word{white-space:nowrap}\
td.name{overflow-wrap:normal}.checks td:nth-child(2){width:30%;overflow-wrap:normal}\
tr.figures td{border-bottom:0}tr.said td{padding-top:0}\
figure{margin:0}figcaption{margin:.2rem 0}.key{display:inline-block;margin-right:1.4rem}\
.sample{width:34px;height:14px;margin-right:.4rem;vertical-align:-1px}\
figure>svg{display:block;width:100%;height:auto}\
.axis{font-size:11px;fill:#444}.label{font-size:12px;fill:#111}.grid{stroke:#ddd}\
.p50{fill:none;stroke:#1f5fa8;stroke-width:2}.p99{fill:none;stroke:#1f5fa8;stroke-width:1.5;stroke-dasharray:5 3}\
.drain{fill:#8883}.failed{stroke:#a11212;stroke-width:2;fill:none}\
.v0{fill:#9dc3e6}.v1{fill:#f3d19c}.none{fill:#eee}.out{fill-opacity:.45;stroke:#555;stroke-dasharray:3 2}\
pre{white-space:pre-wrap;background:#f6f6f6;padding:.6rem;overflow-wrap:anywhere}\
@media screen and (max-width:50rem){body{margin:1rem auto}\
.axis,.label{font-size:20px}.minor{display:none}td,th{padding:.3rem}\
.wide thead{display:none}.wide,.wide tbody,.wide tr,.wide td{display:block}\
.wide tr{padding:.4rem 0;border-bottom:1px solid #ccc}.wide tr.figures{border-bottom:0;padding-bottom:0}\
.checks tr{display:block;padding:.3rem 0;border-bottom:1px solid #ccc}.checks td{display:inline;border:0}\
.checks td:last-child{display:block}\
.wide td,.wide td.n{white-space:normal;border:0;padding:.05rem .3rem;display:flex;gap:1rem;justify-content:space-between;text-align:right}\
.wide td::before{content:attr(data-label);color:#444;text-align:left;white-space:nowrap}\
.wide td.name,.wide tr.said td{display:block;text-align:left}.wide td.name{font-weight:700}\
.wide td.name::before,.wide tr.said td::before{content:none}}\
@media print{body{margin:0;max-width:none;padding:0;font-size:11px}h2,h3{break-after:avoid}svg,tr{break-inside:avoid}\
.axis,.label{font-size:13px}td,th{padding:.2rem .3rem}pre{background:none;border:1px solid #ccc}}";
