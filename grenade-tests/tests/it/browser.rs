//! A page in a real browser: without a network, headless, measured by a script that is added to a copy of the page.

use std::path::Path;
use std::process::Command;

use grenade_tests::world::program;
use serde_json::{Value, json};

/// Measures what is laid out, and leaves it as the whole document.
const MEASURE: &str = "<script>
const box = e => e.getBoundingClientRect();
const all = (query, under) => [...(under ?? document).querySelectorAll(query)];
const verdict = document.querySelector('.verdict');
const pictures = all('svg[role=img]');
const texts = pictures.flatMap(svg => all('text', svg)).filter(text => box(text).width > 0);
const overlap = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
  && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
const found = {
  width: document.documentElement.clientWidth,
  content: document.documentElement.scrollWidth,
  pictures: pictures.map(svg => ({label: svg.getAttribute('aria-label'), width: box(svg).width, height: box(svg).height})),
  curves: all('polyline').map(line => {
    const name = line.querySelector('title')?.textContent;
    const keys = all('.key', line.closest('figure')).filter(key => box(key).width > 0).map(key => key.innerText.trim());
    return {name, length: line.getTotalLength(), keyed: keys.includes(name)};
  }),
  outside: texts.filter(text => {
    const [own, whole] = [box(text), box(text.closest('svg'))];
    return own.left < whole.left - 1 || own.right > whole.right + 1;
  }).map(text => text.textContent),
  overlapping: texts.flatMap((a, n) => texts.slice(n + 1)
    .filter(b => a.closest('svg') === b.closest('svg') && overlap(box(a), box(b)))
    .map(b => a.textContent + ' | ' + b.textContent)),
  smallest: Math.min(...texts.map(text =>
    parseFloat(getComputedStyle(text).fontSize) * box(text.closest('svg')).width / text.closest('svg').viewBox.baseVal.width)),
  cut: all('table, pre, td, th, p, li, h1, h2, h3, figcaption')
    .filter(e => e.scrollWidth > e.clientWidth + 1 || box(e).right > document.documentElement.clientWidth + 1)
    .map(e => e.tagName + ': ' + e.textContent.slice(0, 60)),
  broken: all('td.n, td.word, td.name').filter(cell => {
    const words = cell.textContent.trim().split(/\\s+/);
    const range = document.createRange();
    return words.length === 1 && words[0] && (range.selectNodeContents(cell), range.getClientRects().length > 1);
  }).map(cell => cell.textContent),
  unnamed: all('.wide td').filter(cell => box(cell).width > 0 && !cell.classList.contains('name') && !cell.hasAttribute('colspan')
    && !cell.dataset.label).length,
  verdict: verdict && {text: verdict.innerText, top: box(verdict).top, colour: getComputedStyle(verdict).color},
  text: document.body.innerText,
};
document.body.innerHTML = '';
const left = document.createElement('pre');
left.textContent = JSON.stringify(found);
document.body.append(left);
</script>";

/// The width of A4 between the browser's margins, in pixels.
const PAPER: u32 = 717;
/// The smallest text in a chart that can be read, in pixels.
const LEGIBLE: f64 = 9.0;

fn browser(room: &Path) -> Command {
    let mut command = Command::new(program::outside("chromium").unwrap());
    command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ])
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .arg(format!("--user-data-dir={}", room.join("profile").display()))
        .env("HOME", room);
    command
}

fn url(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// What is laid out of this text on a screen of this width.
fn measured(html: &str, width: u32) -> Value {
    let room = tempfile::tempdir().unwrap();
    let copy = room.path().join("page.html");
    std::fs::write(&copy, html.replace("</body>", &format!("{MEASURE}</body>"))).unwrap();
    let mut command = browser(room.path());
    let done =
        command.arg(format!("--window-size={width},900")).arg("--dump-dom").arg(url(&copy)).output().unwrap();
    let dom = String::from_utf8_lossy(&done.stdout);
    let found = dom.split("<pre>").nth(1).and_then(|rest| rest.split("</pre>").next());
    let found = found
        .unwrap_or_else(|| panic!("nothing was measured: {dom}\n{}", String::from_utf8_lossy(&done.stderr)));
    let plain = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&plain).unwrap()
}

/// How many pages it has on paper.
fn printed(page: &Path) -> usize {
    let room = tempfile::tempdir().unwrap();
    let pdf = room.path().join("page.pdf");
    let mut command = browser(room.path());
    let done = command.arg(format!("--print-to-pdf={}", pdf.display())).arg(url(page)).output().unwrap();
    let bytes =
        std::fs::read(&pdf).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&done.stderr)));
    // Each page is an object of this type; the tree of pages is one of type `Pages`.
    String::from_utf8_lossy(&bytes).matches("/Type /Page\n").count()
}

/// What a page must show wherever it is laid out.
pub(crate) struct Shown<'a> {
    /// The word of the verdict.
    pub verdict: &'a str,
    /// The titles of its charts, in order.
    pub pictures: &'a [&'a str],
    /// The names of their curves, in order.
    pub curves: &'a [&'a str],
    /// What is to be read.
    pub texts: &'a [&'a str],
    /// The most pages on paper.
    pub pages: usize,
}

/// On a wide screen, on a narrow one and on paper: the verdict is seen at once and in words, every chart has its curves,
/// every curve its name, nothing is cut off or too small, and nothing scrolls sideways.
pub(crate) fn is_laid_out(page: &Path, shown: &Shown<'_>) {
    let html = std::fs::read_to_string(page).unwrap();
    let on_paper =
        html.replace("@media print", "@media all").replace("@media screen and", "@media print and");
    assert_ne!(html, on_paper, "the page has no rules for paper");
    for (where_, html, width) in [("wide", &html, 1_200), ("narrow", &html, 500), ("paper", &on_paper, PAPER)]
    {
        let found = measured(html, width);
        assert_eq!(found["width"], json!(width), "{where_}: {found:#}");
        assert_eq!(found["width"], found["content"], "{where_}: it scrolls sideways: {:#}", found["cut"]);
        for wrong in ["cut", "outside", "overlapping", "broken"] {
            assert_eq!(found[wrong], json!([]), "{where_}: {wrong}");
        }
        assert_eq!(found["unnamed"], 0, "{where_}: cells without the name of their column");
        assert!(found["smallest"].as_f64() >= Some(LEGIBLE), "{where_}: text of {} px", found["smallest"]);
        let pictures = found["pictures"].as_array().unwrap();
        let titles: Vec<&str> = pictures.iter().map(|picture| picture["label"].as_str().unwrap()).collect();
        assert_eq!(titles, shown.pictures, "{where_}");
        let is_seen = |picture: &Value| {
            picture["width"].as_f64() > Some(400.0) && picture["height"].as_f64() > Some(20.0)
        };
        assert!(pictures.iter().all(is_seen), "{where_}: {pictures:#?}");
        let curves = found["curves"].as_array().unwrap();
        let names: Vec<&str> = curves.iter().map(|curve| curve["name"].as_str().unwrap_or("none")).collect();
        assert_eq!(names, shown.curves, "{where_}");
        let is_drawn = |curve: &Value| curve["length"].as_f64() > Some(100.0) && curve["keyed"] == true;
        assert!(curves.iter().all(is_drawn), "{where_}: {curves:#?}");
        assert_eq!(found["verdict"]["text"], shown.verdict, "{where_}");
        assert!(found["verdict"]["top"].as_f64() < Some(150.0), "{where_}: {}", found["verdict"]);
        for text in shown.texts {
            let all = found["text"].as_str().unwrap();
            assert!(all.contains(text), "{where_}: `{text}` is not to be read in\n{all}");
        }
    }
    let pages = printed(page);
    assert!((1..=shown.pages).contains(&pages), "{pages} pages on paper, at most {} are right", shown.pages);
}
