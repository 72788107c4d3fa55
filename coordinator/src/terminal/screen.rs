//! A picture that is drawn over itself on the terminal's alternate screen, where a resize leaves nothing behind. The last
//! picture stays on the usual screen.

use super::paint::Line;
use rustix::termios::tcgetwinsize;
use std::io::{self, IsTerminal, Write};

/// Columns and rows of a terminal that does not report its size.
const USUAL: (usize, usize) = (80, 24);
const OPEN: &str = "\x1b[?1049h\x1b[?25l";
const CLOSE: &str = "\x1b[?25h\x1b[?1049l";

/// Whether a picture can be drawn: stdout is a terminal that knows control sequences.
pub fn can_draw() -> bool {
    io::stdout().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

/// Columns of stdout, where it is a terminal.
pub fn width() -> Option<usize> {
    io::stdout().is_terminal().then(|| size().0)
}

/// Columns and rows of the terminal at stdout.
fn size() -> (usize, usize) {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => USUAL,
    }
}

/// The screen. It is put back when this is dropped.
#[derive(Debug)]
pub struct Screen {
    colour: bool,
    open: bool,
    size: (usize, usize),
    shown: Vec<String>,
}

impl Screen {
    /// A screen that is taken with the first picture.
    pub fn new(colour: bool) -> Self {
        Self { colour, open: false, size: (0, 0), shown: Vec::new() }
    }

    /// Whether a picture is on the terminal.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Draws what `lines` makes of the columns and rows that there are now.
    pub fn draw(&mut self, lines: impl FnOnce(usize, usize) -> Vec<Line>) -> io::Result<()> {
        let size = size();
        // The shell's prompt takes a row after the end.
        let lines = lines(size.0, size.1.saturating_sub(1).max(1));
        let shown: Vec<String> = lines.iter().map(|line| line.text(size.0, self.colour)).collect();
        let text = frame(&shown, !self.open, self.size != size, size.1);
        (self.open, self.size, self.shown) = (true, size, shown);
        write(&text)
    }

    /// Puts the usual screen back, without the picture.
    pub fn suspend(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.open) { write(CLOSE) } else { Ok(()) }
    }

    /// Puts the usual screen back and leaves the last picture there.
    pub fn close(&mut self) -> io::Result<()> {
        self.suspend()?;
        let lines = std::mem::take(&mut self.shown);
        write(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.suspend();
    }
}

/// Each row is erased before it is written: after a full row, the cursor is still on its last character.
fn frame(lines: &[String], first: bool, resized: bool, rows: usize) -> String {
    let mut text = if first { OPEN.to_owned() } else { String::new() };
    text.push_str(if first || resized { "\x1b[2J\x1b[H" } else { "\x1b[H" });
    let rows: Vec<String> = lines.iter().take(rows).map(|line| format!("\x1b[2K{line}")).collect();
    text.push_str(&rows.join("\r\n"));
    text.push_str("\r\n\x1b[J");
    text
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::frame;

    #[test]
    fn frame_erases_each_row_and_clears_after_a_resize() {
        let lines = ["a".to_owned(), "b".to_owned()];
        assert_eq!(frame(&lines, false, false, 24), "\x1b[H\x1b[2Ka\r\n\x1b[2Kb\r\n\x1b[J");
        assert_eq!(frame(&lines[..1], false, true, 24), "\x1b[2J\x1b[H\x1b[2Ka\r\n\x1b[J");
        assert!(frame(&[], true, true, 24).starts_with("\x1b[?1049h\x1b[?25l\x1b[2J"));
    }
}
