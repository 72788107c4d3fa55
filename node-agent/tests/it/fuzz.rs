//! Hostile texts at the agent's borders: its configuration, and what balancers and services answer.

use std::path::Path;
use tidegate_agent::config;
use tidegate_agent::drain::balancer;
use tidegate_fuzz::{Border, Counting, Form, Limits, Shape};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Reads a configuration; what is refused says so in a text that does not grow with what was given.
fn configuration(bytes: &[u8]) {
    // A file that is not UTF-8 is refused where it is read.
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(refused) = config::parse(text, Path::new("agent.toml")) {
        std::hint::black_box(refused.to_string());
    }
}

fn configurations() -> Border {
    // A table of TOML has some 500 bytes for the three of `a.`, and the parser notes some 700 for each brace too many.
    Border::new(ROOT, "config", Form::Toml).within(Limits { base: 256 * 1024, per_byte: 1_024, turnover: 4 })
}

#[test]
fn hostile_configuration_is_read_or_refused() {
    configurations().holds(configuration);
}

#[test]
fn configuration_is_read_in_linear_time() {
    let head = "node = \"n\"\nstate_dir = \"/s\"\nruntime_dir = \"/r\"\n";
    let store = "[store]\nendpoints = [\"http://h:1\"]\n";
    let service = "probe = { file = \"/v\" }\nready_url = \"http://h/r\"\nhealth_url = \"http://h/h\"\n";
    let shapes = [
        Shape::repeated("labels", &format!("{head}labels = {{"), "l{n} = \"a\", ", "z = \"b\" }\n"),
        Shape::repeated("endpoints", &format!("{head}[store]\nendpoints = ["), "\"http://h{n}:1\", ", "]\n"),
        Shape::repeated("unknown fields", head, "f{n} = 1\n", ""),
        Shape::repeated("comments", head, "# {n}\n", ""),
        Shape::repeated("wrong braces", &format!("{head} = [\"t\"{{a"), "}", "\n"),
        Shape::repeated("dotted keys", &format!("{head}labels."), "a.", "b = 1"),
        Shape::repeated("nested lists", &format!("{head}labels = "), "[", ""),
        Shape::repeated("a long line", &format!("{head}labels = \""), "\u{e9}\\n", "\""),
        Shape::repeated(
            "bad hooks",
            &format!("{head}{store}"),
            "[hook.h{n}]\nargv = []\ntimeout = \"0s\"\n",
            "",
        ),
        Shape::made("services that share a file", move |bytes| {
            let mut text = format!("{head}{store}");
            let mut n = 0;
            while text.len() < bytes {
                text.push_str(&format!("[service.s{n}]\ndisable_file = \"/d\"\n{service}"));
                n += 1;
            }
            text.into_bytes()
        }),
    ];
    configurations().grows_linearly(4_096, &shapes, configuration);
}

/// Looks for a server in what a balancer printed.
fn table(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for (backend, server) in [("pantry", "n1"), ("pantry", "n9"), ("", "")] {
        match balancer::find(&text, backend, server) {
            Ok(word) => {
                assert!(!(word.is_up() && word.is_down()), "{word:?} is both");
                assert!(word.status.len() < 4_096, "{} bytes of status go into reports", word.status.len());
            }
            Err(why) => assert!(why.len() < 4_096, "{} bytes of text say why not", why.len()),
        }
    }
}

fn balancers() -> Border {
    // An agent shares its machine with the service. An answer is decoded, at up to three bytes for one, and read in place.
    Border::new(ROOT, "balancer", Form::Csv).within(Limits { base: 16 * 1024, per_byte: 8, turnover: 4 })
}

#[test]
fn hostile_balancer_table_is_read_or_refused() {
    balancers().holds(table);
}

#[test]
fn balancer_table_is_read_in_linear_time() {
    let head = "# pxname,svname,scur,status,addr\n";
    let shapes = [
        Shape::repeated("servers", head, "pantry,s{n},0,UP,10.0.0.1:80\n", ""),
        Shape::repeated("columns", "# pxname,", "c{n},", "svname,scur,status\npantry,n1,0,UP\n"),
        Shape::repeated("a long row", head, ",", "\n"),
        Shape::repeated("empty lines", "", "\n", head),
        Shape::repeated("a long status", "# pxname,svname,scur,status\npantry,n1,0,", "UP ", "\n"),
        Shape::repeated("a long count", "# pxname,svname,status,scur\npantry,n1,UP,", "9", "\n"),
    ];
    balancers().grows_linearly(8_192, &shapes, table);
}
