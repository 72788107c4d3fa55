//! The machinery itself: it finds what it is meant to find.

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tidegate_fuzz::{Border, Counting, Form, Seed, Shape, measure};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A border of JSON whose failures are kept nowhere near the sources.
fn border(root: &str) -> Border {
    Border::new(root, "itself", Form::Json)
        .with([Seed::new("one", r#"{"schema": 1, "name": "n1", "items": [1, 2]}"#)])
}

/// What a failed test says.
fn failure(call: impl FnOnce()) -> String {
    let panicked = catch_unwind(AssertUnwindSafe(call)).expect_err("nothing was found");
    panicked.downcast_ref::<String>().cloned().unwrap_or_default()
}

fn scratch(name: &str) -> String {
    let root = std::env::temp_dir().join(format!("tidegate-fuzz-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&root).expect("a directory for scratch");
    root.display().to_string()
}

#[test]
fn fuzz_names_the_input_of_a_planted_panic_and_keeps_it() {
    let root = scratch("panic");
    let message = failure(|| {
        border(&root).holds(|bytes| assert!(!bytes.windows(2).any(|pair| pair == b"99"), "planted"))
    });
    assert!(
        message.contains("planted") && message.contains("2 bytes: 99"),
        "shrunk to what matters: {message}"
    );
    let kept: Vec<Vec<u8>> =
        Seed::all_in(format!("{root}/tests/corpus/itself").as_ref()).into_iter().map(|s| s.bytes).collect();
    assert_eq!(kept, [b"99"]);
    std::fs::remove_dir_all(root).expect("scratch is removed");
}

#[test]
fn fuzz_finds_memory_above_the_limit() {
    let root = scratch("memory");
    let greedy = |bytes: &[u8]| {
        let commas = bytes.iter().filter(|b| **b == b',').count();
        black_box(vec![0_u8; if commas > 8 { 10_000_000 } else { 0 }]);
    };
    let message = failure(|| border(&root).holds(greedy));
    assert!(message.contains("10000000 bytes of memory at once"), "{message}");
    std::fs::remove_dir_all(root).expect("scratch is removed");
}

#[test]
fn fuzz_finds_what_grows_with_the_square_and_nothing_linear() {
    let shapes = [Shape::repeated("words", "", "w{n},", "")];
    let linear = |bytes: &[u8]| {
        black_box(bytes.split(|b| *b == b',').map(<[u8]>::to_vec).collect::<Vec<_>>());
    };
    border("").grows_linearly(4_096, &shapes, linear);
    let copies = |bytes: &[u8]| {
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|b| *b == b',') {
            rest = &rest[at + 1..];
            black_box(rest.to_vec());
        }
    };
    assert!(failure(|| border("").grows_linearly(4_096, &shapes, copies)).contains("allocated in all"));
    let looks = |bytes: &[u8]| {
        let commas = |text: &[u8]| text.iter().filter(|b| **b == b',').count();
        black_box((0..bytes.len()).step_by(16).map(|at| commas(&bytes[at..])).sum::<usize>());
    };
    assert!(failure(|| border("").grows_linearly(4_096, &shapes, looks)).contains("more than linear"));
}

#[test]
fn fuzz_counts_what_is_held_and_what_is_allocated() {
    let ((), usage) = measure(|| {
        for _ in 0..3 {
            black_box(vec![0_u8; 1_000]);
        }
    });
    assert_eq!((usage.peak, usage.total), (1_000, 3_000));
}
