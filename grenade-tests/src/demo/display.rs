//! Where the demo is shown: a picture on a terminal, lines anywhere else.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_coordinator::terminal::colour::{self, When};
use tidegate_coordinator::terminal::screen::{self, Screen};

use crate::demo::frame;
use crate::demo::lines::Lines;
use crate::gate::picture::{Picture, Wait};
use crate::gate::spectator::Spectator;

/// What waits for a person is shown so long before the operator of the demo acts.
const READ_FIRST: Duration = Duration::from_millis(1500);

/// Shows what goes on. The reader may be gone: what cannot be written is lost, and the demo goes on.
#[derive(Debug)]
pub struct Display {
    began: Instant,
    shown: Mutex<Shown>,
}

#[derive(Debug)]
struct Shown {
    form: Form,
    /// The phase, since when, and the waves as they were while they were rolled.
    phase: (String, Instant),
    waves: Vec<u32>,
    waits: Vec<String>,
}

#[derive(Debug)]
enum Form {
    Screen(Box<Taken>),
    Lines(Box<Lines>),
}

/// The terminal while the picture has it.
#[derive(Debug)]
struct Taken {
    screen: Screen,
    /// What was said since: it is printed when the terminal is given back.
    said: Vec<String>,
    last: Option<(Duration, Picture)>,
}

impl Taken {
    fn draw(&mut self) -> std::io::Result<()> {
        let Some((at, picture)) = &self.last else { return Ok(()) };
        self.screen.draw(|width, height| frame::lines(*at, picture, &self.said, width, height))
    }

    fn give_back(&mut self) -> std::io::Result<()> {
        if !self.screen.is_open() {
            return Ok(());
        }
        self.screen.suspend()?;
        self.said.drain(..).for_each(|line| say(&line));
        self.draw()?;
        self.screen.close()
    }
}

impl Display {
    /// A picture if standard output is a terminal and `plain` is not asked for.
    pub fn new(plain: bool) -> Self {
        colour::decide(When::Auto, false);
        let form = match screen::can_draw() && !plain {
            true => {
                let screen = Screen::new(colour::stdout());
                Form::Screen(Box::new(Taken { screen, said: Vec::new(), last: None }))
            }
            false => Form::Lines(Box::default()),
        };
        let now = Instant::now();
        let shown = Shown { form, phase: (String::new(), now), waves: Vec::new(), waits: Vec::new() };
        Self { began: now, shown: Mutex::new(shown) }
    }

    /// What it waited for when that was last seen.
    pub fn waits(&self) -> Vec<String> {
        self.shown().waits.clone()
    }

    /// Gives the terminal back, with what was said and the last picture; what is said from now on comes below it.
    pub fn end(&self) {
        self.shown().end();
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        // What was shown is whole even if a holder panicked.
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shown {
    fn end(&mut self) {
        if let Form::Screen(taken) = &mut self.form {
            let _ = taken.give_back();
        }
    }

    /// With what the coordinator does not say: it stores the seconds of a phase only every now and then, and once an
    /// upgrade is over, instances belong to no wave any more.
    fn complete(&mut self, picture: &Picture) -> Picture {
        let mut picture = picture.clone();
        let Some(upgrade) = &mut picture.upgrade else { return picture };
        if self.phase.0 != upgrade.phase {
            self.phase = (upgrade.phase.clone(), Instant::now());
        }
        upgrade.seconds = self.phase.1.elapsed().as_secs_f64();
        match upgrade.over {
            true => upgrade.waves.clone_from(&self.waves),
            false => self.waves.clone_from(&upgrade.waves),
        }
        picture
    }
}

impl Spectator for Display {
    fn say(&self, text: &str) {
        let line = line(self.began.elapsed(), text);
        match &mut self.shown().form {
            Form::Screen(taken) if taken.screen.is_open() => taken.said.push(line),
            Form::Screen(..) | Form::Lines(_) => say(&line),
        }
    }

    fn look(&self, picture: &Picture) {
        let (at, mut shown) = (self.began.elapsed(), self.shown());
        let picture = shown.complete(picture);
        shown.waits = picture.waits.iter().map(Wait::line).collect();
        match &mut shown.form {
            Form::Screen(taken) => {
                taken.last = Some((at, picture));
                let _ = taken.draw();
            }
            Form::Lines(lines) => lines.changes(at, &picture).iter().for_each(|text| say(&line(at, text))),
        }
    }

    fn reading(&self) -> Duration {
        READ_FIRST
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
