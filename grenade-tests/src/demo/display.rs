//! Where the demo is shown: a picture on a terminal, lines anywhere else.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::demo::lines::Lines;
use crate::demo::picture::Picture;
use crate::demo::screen::Screen;

/// Shows what goes on. Nobody may be reading: what cannot be written is lost, and the demo goes on.
#[derive(Debug)]
pub struct Display {
    began: Instant,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Screen(Screen),
    Lines(Box<Lines>),
}

impl Display {
    /// A picture if standard output is a terminal and `plain` is not asked for.
    pub fn new(plain: bool) -> Self {
        let form = match std::io::stdout().is_terminal() && !plain {
            true => Form::Screen(Screen::default()),
            false => Form::Lines(Box::default()),
        };
        Self { began: Instant::now(), form }
    }

    /// Since it was made.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Says what the demo does, in a line that stays.
    pub fn note(&mut self, text: &str) {
        let line = line(self.elapsed(), text);
        match &mut self.form {
            Form::Screen(screen) => screen.above(&line),
            Form::Lines(_) => say(&line),
        }
    }

    /// Shows an instant.
    pub fn show(&mut self, picture: &Picture) {
        match &mut self.form {
            Form::Screen(screen) => screen.draw(picture),
            Form::Lines(lines) => {
                for text in lines.changes(picture) {
                    say(&line(picture.at, &text));
                }
            }
        }
    }

    /// Leaves the last picture where it is; what is said from now on comes below it.
    pub fn end(&mut self) {
        if let Form::Screen(screen) = &mut self.form {
            screen.end();
        }
    }
}

/// A line with its time.
fn line(at: Duration, text: &str) -> String {
    format!("{:6.1} s  {text}", at.as_secs_f64())
}

/// Writes a text and a line's end.
pub fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}");
    let _ = out.flush();
}
