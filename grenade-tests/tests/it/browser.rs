//! A page in a real browser: without a network, headless, measured by a script that is added to a copy of the page.

use std::path::{Path, PathBuf};
use std::process::Command;

use grenade_tests::world::program;
use serde_json::Value;

/// Measures what is laid out, and leaves it as the whole document.
const MEASURE: &str = "<script>
const box = e => e.getBoundingClientRect();
const all = query => [...document.querySelectorAll(query)];
const verdict = document.querySelector('.verdict');
const found = {
  width: document.documentElement.clientWidth,
  content: document.documentElement.scrollWidth,
  pictures: all('svg').map(svg => ({label: svg.getAttribute('aria-label'), width: box(svg).width, height: box(svg).height})),
  lines: all('polyline').map(line => line.getTotalLength()),
  outside: all('svg text').filter(text => {
    const [own, whole] = [box(text), box(text.closest('svg'))];
    return own.left < whole.left - 1 || own.right > whole.right + 1;
  }).map(text => text.textContent),
  verdict: verdict && {text: verdict.innerText, top: box(verdict).top, colour: getComputedStyle(verdict).color},
  text: document.body.innerText,
};
document.body.innerHTML = '';
const left = document.createElement('pre');
left.textContent = JSON.stringify(found);
document.body.append(left);
</script>";

fn browser(room: &Path) -> Command {
    let mut command = Command::new(program::outside("chromium").unwrap());
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"])
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .arg(format!("--user-data-dir={}", room.join("profile").display()))
        .env("HOME", room);
    command
}

fn url(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// What is laid out on a screen of this width.
pub(crate) fn measured(page: &Path, width: u32) -> Value {
    let room = tempfile::tempdir().unwrap();
    let html = std::fs::read_to_string(page).unwrap();
    let copy: PathBuf = room.path().join("page.html");
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
pub(crate) fn printed(page: &Path) -> usize {
    let room = tempfile::tempdir().unwrap();
    let pdf = room.path().join("page.pdf");
    let mut command = browser(room.path());
    let done = command.arg(format!("--print-to-pdf={}", pdf.display())).arg(url(page)).output().unwrap();
    let bytes =
        std::fs::read(&pdf).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&done.stderr)));
    // Each page is an object of this type; the tree of pages is one of type `Pages`.
    String::from_utf8_lossy(&bytes).matches("/Type /Page\n").count()
}
