//! The layout of the sources: no file, no function and no name of a test is too long, and no module imports itself in a
//! circle.
//!
//! A room is a module directly below the root of a crate, with everything in it. An import is a `use`, or a path in the
//! code, of an item of the same crate; a re-export is followed to the file that defines the item. Two files of one room
//! may import each other, as a module and its child do; a longer circle, or one between rooms, is refused.

use crate::rust_source::{Kind, Part, parts, without_tests};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

/// The most lines of a file.
const MOST_LINES: usize = 400;

/// The most lines of a function.
const MOST_LINES_OF_FUNCTION: usize = 80;

/// The most characters of a test's name.
const MOST_OF_NAME: usize = 60;

/// A module by its path below the crate.
type Module = Vec<String>;

/// What a file imports: each path with the name it gets here, and whether it is a re-export.
struct Import {
    path: Vec<String>,
    name: String,
    is_reexport: bool,
}

struct Source {
    imports: Vec<Import>,
    /// Paths in the code.
    paths: Vec<Vec<String>>,
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The crates of the workspace, each by its directory.
fn members() -> Vec<String> {
    let manifest = std::fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
    let list = manifest.split_once("\nmembers = [").and_then(|(_, rest)| rest.split_once(']')).unwrap().0;
    let members: Vec<String> = list.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(members.len() >= 9 && members.iter().any(|member| member == "coordinator"), "{members:?}");
    members
}

/// The sources of a crate's library: without tests and without what only programs have.
fn sources(under: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(under).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        match (path.is_dir(), name.as_str()) {
            (_, "tests" | "main" | "bin") => {}
            (true, _) => sources(&path, found),
            (false, _) if path.extension().is_some_and(|extension| extension == "rs") => found.push(path),
            _ => {}
        }
    }
}

/// The code without comments and texts, which leave a space and their line ends.
fn code(source: &str) -> String {
    let text = |part: Part<'_>| match part.kind {
        Kind::Code => part.text.to_owned(),
        Kind::Comment | Kind::Literal => format!(" {}", "\n".repeat(part.text.matches('\n').count())),
    };
    parts(source).into_iter().map(text).collect()
}

/// The words and marks of a code: names, `::`, and single marks.
fn tokens(code: &str) -> Vec<&str> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let long = match first {
            _ if rest.starts_with("::") => 2,
            _ if is_word(first) => rest.find(|letter| !is_word(letter)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        tokens.push(&rest[..long]);
        rest = rest[long..].trim_start();
    }
    tokens
}

/// Reads one tree of a `use`, from `at` on; returns where it ends.
fn tree(
    tokens: &[&str],
    mut at: usize,
    before: &[String],
    is_reexport: bool,
    into: &mut Vec<Import>,
) -> usize {
    let mut path = before.to_vec();
    while at < tokens.len() {
        match tokens[at] {
            "::" => at += 1,
            "{" => {
                at += 1;
                while tokens[at] != "}" {
                    at = tree(tokens, at, &path, is_reexport, into);
                    at += usize::from(tokens[at] == ",");
                }
                return at + 1;
            }
            "," | "}" | ";" | "as" => break,
            word => {
                path.push(word.to_owned());
                at += 1;
            }
        }
    }
    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
        path.pop();
    }
    let mut name = path.last().cloned().unwrap_or_default();
    if tokens.get(at) == Some(&"as") {
        name = tokens[at + 1].to_owned();
        at += 2;
    }
    into.push(Import { path, name, is_reexport });
    at
}

fn read(path: &Path) -> Source {
    let text = std::fs::read_to_string(path).unwrap();
    let code = code(without_tests(&text));
    let tokens = tokens(&code);
    let (mut imports, mut paths, mut at) = (Vec::new(), Vec::new(), 0);
    while at < tokens.len() {
        if tokens[at] == "use" && tokens.get(at + 1) != Some(&"<") {
            let before = tokens[..at].iter().rev().take_while(|token| ![";", "}", "]"].contains(token));
            let is_reexport = before.into_iter().any(|token| *token == "pub");
            at = tree(&tokens, at + 1, &[], is_reexport, &mut imports);
        } else if tokens.get(at + 1) == Some(&"::") && !tokens[..at].ends_with(&["(", "in"]) {
            let mut words = vec![tokens[at].to_owned()];
            while tokens.get(at + 1) == Some(&"::") && at + 2 < tokens.len() {
                words.push(tokens[at + 2].to_owned());
                at += 2;
            }
            paths.push(words);
            at += 1;
        } else {
            at += 1;
        }
    }
    Source { imports, paths }
}

/// The files of a crate by module.
fn crate_at(root: &Path) -> BTreeMap<Module, Source> {
    let mut files = Vec::new();
    sources(root, &mut files);
    let module = |path: &Path| {
        let below = path.strip_prefix(root).unwrap().with_extension("");
        let words = below.iter().map(|word| word.to_string_lossy().into_owned());
        words.filter(|word| word != "lib").collect::<Module>()
    };
    files.iter().map(|path| (module(path), read(path))).collect()
}

/// The module that defines what `path` names in `from`; none = outside the crate.
fn defines(files: &BTreeMap<Module, Source>, from: &Module, path: &[String], depth: usize) -> Option<Module> {
    let mut at = from.clone();
    let mut rest = path;
    match path[0].as_str() {
        "crate" => at.clear(),
        "self" => {}
        "super" => {}
        child => {
            at.push(child.to_owned());
            if !files.contains_key(&at) {
                return None;
            }
        }
    }
    if path[0] != "super" {
        rest = &rest[1..];
    }
    for (index, word) in rest.iter().enumerate() {
        if word == "super" {
            at.pop();
            continue;
        }
        at.push(word.clone());
        if files.contains_key(&at) {
            continue;
        }
        at.pop();
        let named = files[&at].imports.iter().find(|import| import.name == *word);
        let followed = named.filter(|_| depth < 8).and_then(|import| {
            let path: Vec<String> = import.path.iter().chain(&rest[index + 1..]).cloned().collect();
            defines(files, &at, &path, depth + 1)
        });
        return Some(followed.unwrap_or(at));
    }
    Some(at)
}

/// What each file imports of its own crate.
fn graph(files: &BTreeMap<Module, Source>) -> BTreeMap<Module, BTreeSet<Module>> {
    let of = |(module, source): (&Module, &Source)| {
        let used = source.imports.iter().filter(|import| !import.is_reexport).map(|import| &import.path);
        let found = used.chain(&source.paths).filter_map(|path| defines(files, module, path, 0));
        (module.clone(), found.filter(|other| other != module).collect())
    };
    files.iter().map(of).collect()
}

/// The shortest circle of at least `least` nodes over each edge, each once.
fn circles<T: Ord + Clone>(graph: &BTreeMap<T, BTreeSet<T>>, least: usize) -> BTreeSet<Vec<T>> {
    let mut found = BTreeSet::new();
    for (from, to) in graph.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to))) {
        let mut before: BTreeMap<&T, &T> = BTreeMap::new();
        let mut queue = VecDeque::from([to]);
        while let Some(at) = queue.pop_front().filter(|at| *at != from) {
            for next in graph.get(at).into_iter().flatten() {
                let is_direct = at == to && next == from && least > 2;
                if next != to && !is_direct && !before.contains_key(next) {
                    before.insert(next, at);
                    queue.push_back(next);
                }
            }
        }
        if !before.contains_key(from) {
            continue;
        }
        let mut circle = vec![from.clone()];
        let mut at = before[from];
        while at != to {
            circle.push(at.clone());
            at = before[at];
        }
        circle.push(to.clone());
        circle.reverse();
        let first = circle.iter().enumerate().min_by_key(|(_, module)| (*module).clone()).unwrap().0;
        circle.rotate_left(first);
        found.insert(circle);
    }
    found
}

fn shown(circle: &[Module]) -> String {
    let names = circle.iter().chain(circle.first()).map(|module| module.join("/"));
    names.collect::<Vec<_>>().join(" -> ")
}

#[test]
fn no_module_imports_itself_in_a_circle() {
    let mut found = Vec::new();
    for name in members() {
        let root = workspace().join(&name).join("src");
        let files = crate_at(&root);
        let imports = graph(&files);
        let room = |module: &Module| module.iter().take(1).cloned().collect::<Module>();
        let mut rooms: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for (module, all) in &imports {
            let others = all.iter().map(room).filter(|other| *other != room(module));
            rooms.entry(room(module)).or_default().extend(others);
        }
        let between =
            circles(&rooms, 2).into_iter().map(|circle| format!("{name}: rooms {}", shown(&circle)));
        let inside: BTreeMap<Module, BTreeSet<Module>> = imports
            .iter()
            .map(|(module, all)| {
                let same = all.iter().filter(|other| room(other) == room(module));
                (module.clone(), same.cloned().collect())
            })
            .collect();
        found.extend(between);
        found.extend(circles(&inside, 3).into_iter().map(|circle| format!("{name}: {}", shown(&circle))));
    }
    assert!(found.is_empty(), "{} circles:\n{}", found.len(), found.join("\n"));
}

/// Every file of Rust in the workspace: libraries, programs, tests, examples, build scripts.
fn every_file(under: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(under).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match path.is_dir() {
            true if name == "target" || name.starts_with('.') => {}
            true => every_file(&path, found),
            false if name.ends_with(".rs") => found.push(path),
            false => {}
        }
    }
}

/// The same with their text.
fn texts() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    every_file(&workspace(), &mut files);
    assert!(files.len() > 1_000, "{} files", files.len());
    files.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// How many lines the function has that begins here; 0 where it has no body.
fn lines_of_function(code: &str) -> usize {
    let (mut depth, mut nested) = (0_i32, 0_i32);
    for (at, letter) in code.char_indices() {
        match letter {
            '(' | '[' => nested += 1,
            ')' | ']' => nested -= 1,
            ';' if depth == 0 && nested <= 0 => return 0,
            _ if depth < 0 || nested < 0 => return 0,
            '{' => depth += 1,
            '}' if depth == 1 => return code[..at].matches('\n').count() + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    0
}

#[test]
fn no_file_is_longer_than_400_lines() {
    let long = texts().into_iter().map(|(path, text)| (text.lines().count(), path));
    let long = long.filter(|(lines, _)| *lines > MOST_LINES);
    let long: Vec<String> = long.map(|(lines, path)| format!("{lines} {}", path.display())).collect();
    assert!(long.is_empty(), "longer than {MOST_LINES} lines:\n{}", long.join("\n"));
}

#[test]
fn no_function_is_longer_than_80_lines() {
    let mut long = Vec::new();
    for (path, text) in texts() {
        let code = code(&text);
        for (at, _) in code.match_indices("fn ").filter(|(at, _)| code[..*at].ends_with([' ', '\n', '('])) {
            let lines = lines_of_function(&code[at..]);
            if lines > MOST_LINES_OF_FUNCTION {
                let name = code[at..].split(['(', '<']).next().unwrap_or_default();
                long.push(format!("{lines} {}: {name}", path.display()));
            }
        }
    }
    assert!(long.is_empty(), "longer than {MOST_LINES_OF_FUNCTION} lines:\n{}", long.join("\n"));
}

/// The names of the functions with an attribute that makes them tests.
fn tests(code: &str) -> impl Iterator<Item = &str> {
    let attributes = code.match_indices("#[").map(|(at, _)| &code[at + 2..]).filter(|rest| {
        let attribute = rest.split([']', '(']).next().unwrap_or_default();
        attribute == "test" || attribute.ends_with("::test")
    });
    attributes.filter_map(|rest| {
        let (_, function) = rest.split('{').next().unwrap_or_default().split_once("fn ")?;
        function.split('(').next()
    })
}

#[test]
fn no_name_of_a_test_is_longer_than_60_characters() {
    let mut long = Vec::new();
    for (path, text) in texts() {
        let code = code(&text);
        let names = tests(&code).filter(|name| name.len() > MOST_OF_NAME);
        long.extend(names.map(|name| format!("{} {name}: {}", name.len(), path.display())));
    }
    assert!(long.is_empty(), "longer than {MOST_OF_NAME} characters:\n{}", long.join("\n"));
    let code =
        "#[test]\n#[ignore]\nfn a() {}\n#[tokio::test(flavor = 1)]\nasync fn b() {}\n#[cfg(test)]\nfn c() {}";
    assert_eq!(tests(code).collect::<Vec<_>>(), ["a", "b"]);
}
