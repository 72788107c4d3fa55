//! Words that readers fall over.

use super::form::Form;
use crate::dice::Dice;

/// Numbers at and beyond the limits of their types.
const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "-1",
    "1",
    "2",
    "00",
    "+1",
    "127",
    "128",
    "255",
    "256",
    "32768",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1e309",
    "-1e309",
    "1e-400",
    "1e999999999",
    "0.1",
    "1.5",
    ".5",
    "5.",
    "0x10",
    "0o17",
    "0b1",
    "1_000",
    "NaN",
    "nan",
    "inf",
    "-inf",
    ".inf",
    "Infinity",
    "100%",
    "101%",
    "-1%",
    "0%",
    "99999%",
    "1e5%",
    "584942417355y",
    "18446744073709551615s",
    "18446744073709551615h",
    "999999999999999999999999d",
    "0s",
    "-1s",
    "1ms1ms",
    "1.5s",
    "1970-01-01",
    "9999-99-99T99:99:99Z",
    "07:32:00",
    "123456789012345678901234567890",
];

/// Texts that are short and mean something somewhere.
const TEXTS: &[&str] = &[
    "",
    " ",
    ".",
    "..",
    "/",
    "//",
    "../../etc/passwd",
    "a/b",
    "\\",
    "\"",
    "'",
    "`",
    "\0",
    "\u{1b}[2J",
    "\r",
    "\t",
    "null",
    "~",
    "true",
    "false",
    "yes",
    "off",
    "unknown",
    "{n}",
    "%00",
    "%ff",
    "%",
    "%zz",
    "a\nb",
    "\u{feff}",
    "\u{202e}",
    "\u{130}",
    "\u{df}",
    "e\u{301}",
    "\u{1f980}",
    "\u{10ffff}",
    "\u{e000}",
    "schema",
    "version",
    "absent",
    "http://",
    "http://[::1",
    "http://h:99999/",
    "unix:",
    "tcp::",
    "-",
    "--",
    "/*",
    "*/",
    "$$",
    "$a$",
    "E'",
    ";",
    "BEGIN",
    "END",
    "CASE",
    "CREATE",
    "DROP TABLE t;",
    "SELECT 1",
    "--\n",
    "\u{a0}",
    "ſ",
    "K",
];

const JSON: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "{}",
    "[]",
    "null",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"\\udc00\\ud800\"",
    "\\u",
    "{\"a\":{}}",
    "[[]]",
    "//",
    "/**/",
];

const YAML: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ": ",
    "- ",
    "? ",
    "&a ",
    "*a",
    "&a [*a]",
    "<<: *a",
    "<<: {}",
    "!!binary ",
    "!!str ",
    "!!int ",
    "!!float ",
    "!!set ",
    "!x ",
    "|",
    ">",
    "|+\n",
    ">-\n",
    "#",
    "---\n",
    "...\n",
    "%YAML 9.9\n",
    "%TAG ! x\n",
    "\"",
    "'",
    "\"\\x",
    "\"\\U0010ffff\"",
    "\t",
    "\n",
    "\r\n",
    "    ",
    "@",
    "`",
    "0o7",
    "~",
];

const TOML: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "[[",
    "]]",
    "[a]\n",
    "[[a]]\n",
    "a = 1\n",
    "a.b = 1\n",
    "a.b.c.d = {}\n",
    "=",
    ".",
    ",",
    "\"",
    "'",
    "\"\"\"",
    "'''",
    "\"\\u0000\"",
    "\"\\UFFFFFFFF\"",
    "#",
    "\n",
    "\r",
    "\\",
    "1979-05-27",
    "{}",
    "[]",
];

const CSV: &[&str] = &[
    ",",
    ",,,,",
    "\n",
    "\r\n",
    "\r",
    "\"",
    "\"\"",
    "# ",
    "# pxname,",
    "# pxname,svname,scur,status,addr\n",
    "UP",
    "UP 1/3",
    "DOWN",
    "no check",
    "MAINT (via x)",
    "status",
    "scur",
    "svname",
    "pxname",
    "FRONTEND",
    "BACKEND",
];

const HTTP: &[&str] = &[
    "GET ",
    "POST ",
    "PUT ",
    "DELETE ",
    "PATCH ",
    "OPTIONS ",
    "HEAD ",
    "CONNECT ",
    " HTTP/1.1\r\n",
    " HTTP/1.0\r\n",
    "\r\n",
    "\r\n\r\n",
    "\n",
    ": ",
    "Content-Length: 5\r\n",
    "Content-Length: -1\r\n",
    "Expect: 100-continue\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Authorization: Bearer x\r\n",
    "Authorization: Basic \r\n",
    "Host: \r\n",
    "If-None-Match: *\r\n",
    "If-None-Match: W/\"\"\r\n",
    "Content-Type: application/json\r\n",
    "Upgrade: h2c\r\n",
    "?",
    "&",
    "=",
    "%2e%2e",
    "%2F",
    "//",
    "/",
    "#",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "null",
    "\"\\ud800\"",
];

/// Pieces of each form.
fn pieces(form: Form) -> &'static [&'static str] {
    match form {
        Form::Json | Form::Call => JSON,
        Form::Yaml => YAML,
        Form::Toml => TOML,
        Form::Csv => CSV,
        Form::Http => HTTP,
    }
}

/// One word of any kind that the form may hold.
pub(super) fn word(form: Form, dice: &mut Dice) -> Vec<u8> {
    match dice.below(8) {
        0 | 1 => number(dice),
        2 => text(dice),
        3 => long(dice),
        _ => dice.pick(pieces(form)).as_bytes().to_vec(),
    }
}

/// A number, or what is nearly one.
pub(super) fn number(dice: &mut Dice) -> Vec<u8> {
    if dice.once_in(12) {
        return vec![b'9'; 1 + dice.below(400)];
    }
    dice.pick(NUMBERS).as_bytes().to_vec()
}

/// A short text; sometimes not UTF-8.
pub(super) fn text(dice: &mut Dice) -> Vec<u8> {
    if dice.once_in(10) {
        return not_utf8(dice);
    }
    dice.pick(TEXTS).as_bytes().to_vec()
}

/// Bytes that are not UTF-8.
pub(super) fn not_utf8(dice: &mut Dice) -> Vec<u8> {
    let bytes: [&[u8]; 6] = [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\x80"];
    dice.pick(&bytes).to_vec()
}

/// A long text, now and then of characters of several bytes.
pub(super) fn long(dice: &mut Dice) -> Vec<u8> {
    let lengths = [63, 64, 65, 100, 128, 255, 256, 500, 501, 1_024, 4_096];
    let count = *dice.pick(&lengths);
    let unit = dice.pick(&["a", "a", "\u{e9}", "\u{1f980}", "\\", "\"", "$", "-"]);
    unit.repeat(count).into_bytes()
}

/// The numbers of protobuf: as they are written on the wire.
pub(super) fn varint(dice: &mut Dice) -> u64 {
    const VALUES: [u64; 16] = [
        0,
        1,
        2,
        127,
        128,
        255,
        1 << 31,
        u32::MAX as u64,
        1 << 32,
        i64::MAX as u64,
        i64::MAX as u64 - 1,
        i64::MIN as u64,
        u64::MAX,
        u64::MAX - 1,
        9_000_000_000,
        9_000_000_001,
    ];
    if dice.once_in(4) { dice.next() >> dice.below(64) } else { *dice.pick(&VALUES) }
}
