//! Records what a command draws on a terminal as an animated SVG: `recording FILE.svg COMMAND [ARGUMENT…]`. It is used for
//! the recording in the README, from a real run: `make recording`.

use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const COLUMNS: u16 = 100;
const ROWS: u16 = 26;
/// Two frames are at least so far apart.
const SPACING: Duration = Duration::from_millis(500);
/// The recording is shown so much faster than the run.
const FASTER: f64 = 2.0;
/// How long the last frame stays, in seconds of the recording.
const LAST: f64 = 5.0;

/// The size of a cell, in pixels.
const CELL: (u16, u16) = (8, 17);
const BACKGROUND: &str = "#1b1f24";
const FOREGROUND: &str = "#d7dbe0";
/// The eight colours of ANSI.
const COLOURS: [&str; 8] =
    ["#5c6370", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d7dbe0"];

/// The rows of a screen as SVG, and when it was seen.
struct Frame {
    at: Duration,
    rows: Vec<String>,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), Some(program)) = (arguments.next(), arguments.next()) else {
        bail!("usage: recording FILE.svg COMMAND [ARGUMENT…]");
    };
    let mut command = Command::new(&program);
    command.args(arguments).env("TERM", "xterm-256color");
    let frames = record(command).with_context(|| format!("could not record {program}"))?;
    std::fs::write(&file, svg(&frames)).with_context(|| format!("could not write {file}"))?;
    eprintln!("{} frames in {file}", frames.len());
    Ok(())
}

fn record(mut command: Command) -> Result<Vec<Frame>> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let path = ptsname(&master, Vec::new())?.into_string()?;
    tcsetwinsize(&master, Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 })?;
    let slave =
        || File::options().read(true).write(true).custom_flags(OFlags::NOCTTY.bits() as i32).open(&path);
    let mut child = command.stdin(slave()?).stdout(slave()?).stderr(slave()?).spawn()?;
    drop(command);
    let (sender, receiver) = mpsc::channel();
    let mut from = File::from(master);
    // The read fails when the command has closed the terminal.
    std::thread::spawn(move || {
        let mut bytes = [0; 8192];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if sender.send(bytes[..count].to_vec()).is_err() {
                break;
            }
        }
    });
    let mut screen = vt100::Parser::new(ROWS, COLUMNS, 0);
    let (began, mut frames) = (Instant::now(), Vec::<Frame>::new());
    let mut due = Instant::now();
    while let Ok(bytes) = receiver.recv() {
        screen.process(&bytes);
        if Instant::now() >= due {
            take(&mut frames, &screen, began);
            due = Instant::now() + SPACING;
        }
    }
    take(&mut frames, &screen, began);
    let status = child.wait()?;
    if !status.success() {
        bail!("it ended with {status}");
    }
    Ok(frames)
}

fn take(frames: &mut Vec<Frame>, screen: &vt100::Parser, began: Instant) {
    let rows: Vec<String> = (0..ROWS).map(|row| drawn(screen.screen(), row)).collect();
    if frames.last().is_none_or(|last| last.rows != rows) {
        frames.push(Frame { at: began.elapsed(), rows });
    }
}

/// One row: a `tspan` for each stretch of one colour.
fn drawn(screen: &vt100::Screen, row: u16) -> String {
    let mut text = String::new();
    let mut open: Option<(String, u16, String)> = None;
    for column in 0..COLUMNS {
        let Some(cell) = screen.cell(row, column) else { continue };
        let style = style(cell);
        let shown = if cell.has_contents() { cell.contents().to_owned() } else { " ".to_owned() };
        match &mut open {
            Some((same, _, run)) if *same == style => run.push_str(&shown),
            _ => {
                close(&mut text, open.take());
                open = Some((style, column, shown));
            }
        }
    }
    close(&mut text, open);
    text
}

fn close(text: &mut String, run: Option<(String, u16, String)>) {
    if let Some((style, column, shown)) = run
        && !shown.trim().is_empty()
    {
        // The directory of the repository says nothing to a reader.
        let here = std::env::current_dir().map(|path| path.display().to_string()).unwrap_or_default();
        let shown = if here.is_empty() { shown } else { shown.replace(&here, "~/tidegate") };
        let shown = shown.trim_end().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = write!(text, "<tspan x=\"{}\"{style}>{shown}</tspan>", column * CELL.0);
    }
}

fn style(cell: &vt100::Cell) -> String {
    let colour = match cell.fgcolor() {
        vt100::Color::Idx(index) => COLOURS[usize::from(index % 8)].to_owned(),
        vt100::Color::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
        vt100::Color::Default if cell.dim() => COLOURS[0].to_owned(),
        vt100::Color::Default => String::new(),
    };
    let colour = if colour.is_empty() { colour } else { format!(" fill=\"{colour}\"") };
    let bold = if cell.bold() { " font-weight=\"bold\"" } else { "" };
    format!("{colour}{bold}")
}

/// Every frame below the one before; the strip is moved up, a frame at a time.
fn svg(frames: &[Frame]) -> String {
    let (width, height) = (COLUMNS * CELL.0 + 16, ROWS * CELL.1 + 16);
    let seconds = |frame: &Frame| frame.at.as_secs_f64() / FASTER;
    let whole = frames.last().map_or(0.0, seconds) + LAST;
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut rows, mut strip, mut moves) = (String::new(), String::new(), String::new());
    for (number, frame) in frames.iter().enumerate() {
        let top = number * usize::from(height);
        let _ = write!(moves, "{:.2}%{{transform:translateY(-{top}px)}}", 100.0 * seconds(frame) / whole);
        for (row, text) in frame.rows.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
            let known = names.len();
            let name = *names.entry(text).or_insert_with(|| {
                let _ = writeln!(rows, "<text id=\"r{known}\">{text}</text>");
                known
            });
            let y = top + 8 + (row + 1) * usize::from(CELL.1) - 4;
            let _ = write!(strip, "<use href=\"#r{name}\" x=\"8\" y=\"{y}\"/>");
        }
        strip.push('\n');
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"13\" fill=\"{FOREGROUND}\">\n\
         <style>text{{white-space:pre}}#strip{{animation:play {whole:.2}s step-end infinite}}@keyframes play{{{moves}}}</style>\n\
         <defs>\n{rows}</defs>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{BACKGROUND}\"/>\n\
         <g id=\"strip\">\n{strip}</g>\n</svg>\n"
    )
}
