//! One border: its corpus, its limits, and the two things that must hold of its reader.

use crate::allocation::{Usage, measure};
use crate::corpus::{self, Seed};
use crate::growth::Shape;
use crate::input::{Input, Mutated};
use crate::mutation::Form;
use crate::watch;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use std::fs::File;
use std::io::{Seek, Write};
use std::path::PathBuf;
use std::time::Duration;

/// How many inputs each border gets. `PROPTEST_CASES` can only raise it.
pub const INPUTS: u32 = 10_000;

/// What a reader may allocate: so much whatever it is given, and so much more for each byte of the input.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Held at once, in bytes.
    pub base: u64,
    /// Held at once, in bytes for each byte of the input.
    pub per_byte: u64,
    /// Allocated in all, as a multiple of what may be held at once.
    pub turnover: u64,
}

impl Default for Limits {
    /// A JSON value has up to 72 bytes for the two of `0,`, and a vector that grows holds its old half for a moment.
    fn default() -> Self {
        Self { base: 64 * 1024, per_byte: 128, turnover: 4 }
    }
}

/// A border.
pub struct Border {
    /// What it is called: the name of its directory below `tests/corpus`.
    name: String,
    directory: PathBuf,
    form: Form,
    seeds: Vec<Seed>,
    limits: Limits,
    longest: usize,
}

impl Border {
    /// The border whose corpus is `<crate>/tests/corpus/<name>`; `root` is `env!("CARGO_MANIFEST_DIR")`.
    pub fn new(root: &str, name: &str, form: Form) -> Self {
        let directory = PathBuf::from(root).join("tests/corpus").join(name);
        let seeds = if directory.is_dir() { Seed::all_in(&directory) } else { Vec::new() };
        let (name, limits) = (name.to_owned(), Limits::default());
        Self { name, directory, form, seeds, limits, longest: 256 * 1024 }
    }

    /// With more to begin from than the corpus holds.
    #[must_use]
    pub fn with(mut self, seeds: impl IntoIterator<Item = Seed>) -> Self {
        self.seeds.extend(seeds);
        self
    }

    /// With limits of its own.
    #[must_use]
    pub fn within(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Gives the corpus to the reader as it is, then [`INPUTS`] mutations of it. Each must be read or refused: without a
    /// panic, and within the limits.
    ///
    /// # Panics
    /// With the shrunk input and the file that it is kept in.
    pub fn holds(&self, mut read: impl FnMut(&[u8])) {
        assert!(
            !self.seeds.is_empty(),
            "{} is empty: a corpus has at least one file",
            self.directory.display()
        );
        let mut trace = Trace::new(&self.name);
        // What is made once (tables, interned texts) is no input's own.
        read(&self.seeds[0].bytes);
        let read = std::cell::RefCell::new(&mut read);
        let mut check = |bytes: &[u8]| {
            trace.write(bytes);
            self.broken(bytes, *read.borrow_mut())
        };
        for Seed { name, bytes } in &self.seeds {
            if let Some(why) = check(bytes) {
                panic!("{}, corpus file {name}: {why}", self.name);
            }
        }
        let check = std::cell::RefCell::new(check);
        let usual = Config::default();
        let config = Config {
            cases: usual.cases.max(INPUTS),
            failure_persistence: None,
            max_shrink_iters: 4_096,
            ..usual
        };
        let inputs = Mutated { seeds: self.seeds.clone().into(), form: self.form, longest: self.longest };
        let ran = TestRunner::new(config).run(&inputs, |Input(bytes)| match (check.borrow_mut())(&bytes) {
            Some(why) => Err(TestCaseError::fail(why)),
            None => Ok(()),
        });
        match ran {
            Ok(()) => {}
            Err(TestError::Fail(why, input)) => {
                let kept = corpus::keep(&self.directory, &input.0);
                panic!("{}: {why}\nthe input, kept as {}: {input:?}", self.name, kept.display());
            }
            Err(TestError::Abort(why)) => panic!("{}: aborted: {why}", self.name),
        }
    }

    fn broken(&self, bytes: &[u8], read: &mut dyn FnMut(&[u8])) -> Option<String> {
        let (ended, usage) = measure(|| watch::panics_of(|| read(bytes)));
        if let Err(panicked) = ended {
            return Some(panicked);
        }
        self.excess(bytes.len(), usage)
    }

    /// What was allocated beyond the limits for an input of so many bytes.
    fn excess(&self, bytes: usize, Usage { peak, total }: Usage) -> Option<String> {
        let held = self.limits.base + self.limits.per_byte * bytes as u64;
        let all = held * self.limits.turnover;
        if peak > held {
            return Some(format!("{bytes} bytes held {peak} bytes of memory at once, {held} are allowed"));
        }
        (total > all)
            .then(|| format!("{bytes} bytes had {total} bytes of memory allocated in all, {all} are allowed"))
    }

    /// Gives the reader each shape at about `size` bytes and at 16 times as many. Allocated bytes may
    /// grow three times as much as the length does. One large input may take four times as long as 16 small ones, which are
    /// timed right before it: what grows with the square takes 16 times as long.
    ///
    /// # Panics
    /// With the shape and what was measured.
    pub fn grows_linearly(&self, size: usize, shapes: &[Shape], mut read: impl FnMut(&[u8])) {
        const TIMES: usize = 16;
        for shape in shapes {
            let (small, large) = (shape.of(size), shape.of(size * TIMES));
            read(&small);
            let ((), few) = measure(|| read(&small));
            let ((), many) = measure(|| read(&large));
            if let Some(why) = self.excess(large.len(), many) {
                panic!("{}, {}: {why}", self.name, shape.name);
            }
            let ratio = large.len() as f64 / small.len() as f64;
            let allowed = ((few.total + 4_096) as f64 * ratio * 3.0) as u64;
            assert!(
                many.total <= allowed,
                "{}, {}: {} bytes allocate {}, {} bytes allocate {}, at most {allowed} are allowed",
                self.name,
                shape.name,
                small.len(),
                few.total,
                large.len(),
                many.total,
            );
            self.time_is_linear(shape.name, &small, &large, ratio, &mut read);
        }
    }

    fn time_is_linear(
        &self,
        shape: &str,
        small: &[u8],
        large: &[u8],
        ratio: f64,
        read: &mut dyn FnMut(&[u8]),
    ) {
        let mut time_of = |bytes: &[u8], reads: usize| {
            let begun = processor_time();
            (0..reads).for_each(|_| read(bytes));
            processor_time() - begun
        };
        let (mut few, mut many) = (Duration::ZERO, Duration::MAX);
        // As many small inputs as make up the large one, right before it: a busy machine makes both slower alike. Where
        // that was one of them alone, another round is taken.
        for _ in 0..8 {
            few = time_of(small, ratio.ceil() as usize);
            many = time_of(large, 1);
            if many <= few * 4 + Duration::from_millis(1) {
                return;
            }
        }
        panic!(
            "{}, {shape}: as many inputs of {} bytes as make up {} bytes take {few:?}, one of all bytes takes {many:?}: \
             more than linear",
            self.name,
            small.len(),
            large.len()
        );
    }
}

/// How long processors have worked for this process. What others keep them busy with is not in it.
fn processor_time() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    spent.try_into().expect("no process has worked for less than nothing")
}

/// The last input in a file, for what ends the process before anything can be said: a stack that overflows, memory that
/// cannot be had.
struct Trace {
    file: Option<File>,
    length: u64,
}

impl Trace {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join("tidegate-fuzz");
        let file = std::fs::create_dir_all(&directory)
            .and_then(|()| File::create(directory.join(name.replace('/', "-"))));
        Self { file: file.ok(), length: 0 }
    }

    fn write(&mut self, bytes: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let length = bytes.len() as u64;
        let mut written = file.rewind().and_then(|()| file.write_all(bytes));
        if length < self.length {
            written = written.and_then(|()| file.set_len(length));
        }
        self.length = length;
        if written.is_err() {
            self.file = None;
        }
    }
}
