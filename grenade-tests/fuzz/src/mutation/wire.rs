//! Edits of protobuf messages, field by field and at any depth: lengths stay right, except where an edit is meant to
//! break them.

use super::hostile;
use crate::dice::Dice;
use std::ops::Range;

/// How deep an edit looks for a field.
const DEEPEST: usize = 12;

/// A field of a message: all its bytes, and those after its number and length.
struct Field {
    whole: Range<usize>,
    number: u64,
    value: Value,
}

enum Value {
    Varint,
    Fixed(Range<usize>),
    Bytes(Range<usize>),
}

/// A call after one edit: of its method now and then, of its message mostly.
pub(super) fn edited_call(call: &[u8], other: &[u8], dice: &mut Dice) -> Vec<u8> {
    let split = |call: &[u8]| call.iter().position(|b| *b == b'\n').map_or(call.len(), |at| at + 1);
    let (head, message) = call.split_at(split(call));
    let (other_head, other_message) = other.split_at(split(other));
    let (mut head, mut message) = (head.to_vec(), message.to_vec());
    match dice.below(40) {
        0 => head = other_head.to_vec(),
        1 => message = other_message.to_vec(),
        2 => message.extend_from_slice(other_message),
        3 if !head.is_empty() => {
            let at = dice.below(head.len());
            head[at] ^= 1 << dice.below(7);
        }
        _ => message = edited(&message, other_message, dice, 0),
    }
    head.extend_from_slice(&message);
    head
}

fn edited(message: &[u8], other: &[u8], dice: &mut Dice, depth: usize) -> Vec<u8> {
    let found = fields(message).filter(|found| !found.is_empty());
    let Some(found) = found else { return raw(message, dice) };
    let field = dice.pick(&found);
    if let Value::Bytes(inside) = &field.value
        && depth < DEEPEST
        && dice.below(3) > 0
    {
        let inside = edited(&message[inside.clone()], other, dice, depth + 1);
        return replaced(message, &field.whole, &bytes_field(field.number, &inside));
    }
    let whole = &message[field.whole.clone()];
    let by = match dice.below(12) {
        0 => Vec::new(),
        1 => whole.repeat(2 + dice.below(3)),
        2 if dice.once_in(8) => whole.repeat(dice.below(300)),
        3 => nested(message, field, dice),
        4 => {
            let (mut changed, mut rest) = (Vec::new(), whole);
            let number = read_varint(&mut rest).unwrap_or(0);
            let field = 1 + dice.below(20) as u64;
            write_varint(&mut changed, (field << 3) | (number & 7));
            changed.extend_from_slice(rest);
            changed
        }
        5 => {
            // A length that lies.
            let mut lying = Vec::new();
            write_varint(&mut lying, (field.number << 3) | 2);
            write_varint(&mut lying, hostile::varint(dice));
            lying.extend_from_slice(whole);
            lying
        }
        6 => one_of(other, dice).unwrap_or_else(|| whole.to_vec()),
        7 => [one_of(message, dice).unwrap_or_default(), whole.to_vec()].concat(),
        8 => varint_field(1 + dice.below(20) as u64, hostile::varint(dice)),
        _ => match &field.value {
            Value::Varint => varint_field(field.number, hostile::varint(dice)),
            Value::Bytes(_) => bytes_field(field.number, &payload(dice)),
            Value::Fixed(_) => raw(whole, dice),
        },
    };
    replaced(message, &field.whole, &by)
}

fn payload(dice: &mut Dice) -> Vec<u8> {
    match dice.below(4) {
        0 => hostile::number(dice),
        1 => hostile::long(dice),
        2 => Vec::new(),
        _ => hostile::text(dice),
    }
}

/// The field inside itself, many times.
fn nested(message: &[u8], field: &Field, dice: &mut Dice) -> Vec<u8> {
    let times = *dice.pick(&[1, 2, 10, 98, 99, 100, 101, 300]);
    let mut inside = match &field.value {
        Value::Bytes(inside) | Value::Fixed(inside) => message[inside.clone()].to_vec(),
        Value::Varint => Vec::new(),
    };
    for _ in 0..times {
        inside = bytes_field(field.number, &inside);
    }
    inside
}

fn one_of(message: &[u8], dice: &mut Dice) -> Option<Vec<u8>> {
    let found = fields(message).filter(|found| !found.is_empty())?;
    Some(message[dice.pick(&found).whole.clone()].to_vec())
}

/// An edit of bytes that are no message.
fn raw(bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    match dice.below(5) {
        0 if !bytes.is_empty() => {
            let at = dice.below(bytes.len());
            bytes[at] ^= 1 << dice.below(8);
        }
        1 => bytes.truncate(dice.below(bytes.len())),
        2 => bytes.extend(varint_field(1 + dice.below(20) as u64, hostile::varint(dice))),
        3 => bytes.extend(bytes_field(1 + dice.below(20) as u64, &payload(dice))),
        _ => bytes = payload(dice),
    }
    bytes
}

fn replaced(message: &[u8], at: &Range<usize>, by: &[u8]) -> Vec<u8> {
    [&message[..at.start], by, &message[at.end..]].concat()
}

/// The fields, if all of it is a message.
fn fields(message: &[u8]) -> Option<Vec<Field>> {
    let mut found = Vec::new();
    let mut rest = message;
    while !rest.is_empty() {
        let begin = message.len() - rest.len();
        let key = read_varint(&mut rest)?;
        let start = message.len() - rest.len();
        let value = match key & 7 {
            0 => {
                read_varint(&mut rest)?;
                Value::Varint
            }
            2 => {
                let length = usize::try_from(read_varint(&mut rest)?).ok()?;
                let start = message.len() - rest.len();
                rest = rest.get(length..)?;
                Value::Bytes(start..start + length)
            }
            fixed @ (1 | 5) => {
                let length = if fixed == 1 { 8 } else { 4 };
                rest = rest.get(length..)?;
                Value::Fixed(start..start + length)
            }
            _ => return None,
        };
        if key >> 3 == 0 {
            return None;
        }
        found.push(Field { whole: begin..message.len() - rest.len(), number: key >> 3, value });
    }
    Some(found)
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn write_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value as u8) | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn varint_field(number: u64, value: u64) -> Vec<u8> {
    let mut field = Vec::new();
    write_varint(&mut field, number << 3);
    write_varint(&mut field, value);
    field
}

fn bytes_field(number: u64, value: &[u8]) -> Vec<u8> {
    let mut field = Vec::new();
    write_varint(&mut field, (number << 3) | 2);
    write_varint(&mut field, value.len() as u64);
    field.extend_from_slice(value);
    field
}
