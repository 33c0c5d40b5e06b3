//! Finding places in a program: after an event, after a byte, inside a character.

use super::fault::At;
use super::program::{Op, Piece, Program, Unfit};

/// Puts operations at a position, cutting a piece in two if need be.
pub(crate) fn insert(program: &mut Program, at: At, new: Vec<Op>) {
    let index = match at {
        At::BeforeHead => {
            program.before.extend(new);
            return;
        }
        At::Usual => 0,
        At::Event(n) => after_event(&program.ops, n),
        At::Byte(n) => after_byte(&mut program.ops, n),
    };
    let index = index.min(program.ops.len());
    program.ops.splice(index..index, new);
}

fn after_event(ops: &[Op], n: usize) -> usize {
    let mut seen = 0_usize;
    for (index, step) in ops.iter().enumerate() {
        if seen >= n {
            return index;
        }
        if matches!(step, Op::Send(piece) if piece.ends_event) {
            seen = seen.saturating_add(1);
        }
    }
    ops.len()
}

fn after_byte(ops: &mut Vec<Op>, n: u64) -> usize {
    let mut left = usize::try_from(n).unwrap_or(usize::MAX);
    for index in 0..ops.len() {
        if left == 0 {
            return index;
        }
        let Some(Op::Send(piece)) = ops.get_mut(index) else {
            continue;
        };
        if left < piece.bytes.len() {
            let first = Piece {
                bytes: piece.bytes.split_to(left),
                index: piece.index.take(),
                ends_event: false,
            };
            ops.insert(index, Op::Send(first));
            return index.saturating_add(1);
        }
        left = left.saturating_sub(piece.bytes.len());
    }
    ops.len()
}

pub(crate) fn body_length(program: &Program) -> u64 {
    program
        .ops
        .iter()
        .map(|step| match step {
            Op::Send(piece) => u64::try_from(piece.bytes.len()).unwrap_or(u64::MAX),
            _ => 0,
        })
        .fold(0, u64::saturating_add)
}

/// The offset of the first byte that continues a character.
fn continuation(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|b| b & 0xC0 == 0x80)
}

pub(crate) fn split_characters(program: &mut Program) -> Result<(), Unfit> {
    let mut offset = 0_u64;
    let mut cuts = Vec::new();
    for step in &program.ops {
        if let Op::Send(piece) = step {
            if let Some(at) = continuation(&piece.bytes) {
                cuts.push(offset.saturating_add(u64::try_from(at).unwrap_or(u64::MAX)));
            }
            offset = offset.saturating_add(u64::try_from(piece.bytes.len()).unwrap_or(u64::MAX));
        }
    }
    if cuts.is_empty() {
        return Err(NO_CHARACTER);
    }
    let mut cuts = cuts.into_iter().peekable();
    let mut offset = 0_u64;
    let mut ops = Vec::with_capacity(program.ops.len());
    for step in std::mem::take(&mut program.ops) {
        let Op::Send(mut piece) = step else {
            ops.push(step);
            continue;
        };
        let end = offset.saturating_add(u64::try_from(piece.bytes.len()).unwrap_or(u64::MAX));
        if let Some(cut) = cuts.next_if(|cut| *cut < end) {
            let at = usize::try_from(cut.saturating_sub(offset)).unwrap_or(0);
            ops.push(Op::Send(Piece {
                bytes: piece.bytes.split_to(at.min(piece.bytes.len())),
                index: piece.index.take(),
                ends_event: false,
            }));
        }
        ops.push(Op::Send(piece));
        offset = end;
    }
    program.ops = ops;
    Ok(())
}

/// The offset in the body inside the first character of several bytes at or
/// after a position.
pub(crate) fn inside_character(program: &mut Program, from: At) -> Result<u64, Unfit> {
    let first = match from {
        At::Byte(n) => after_byte(&mut program.ops, n),
        At::Event(n) => after_event(&program.ops, n),
        At::Usual | At::BeforeHead => 0,
    };
    let mut offset = 0_u64;
    for (index, step) in program.ops.iter().enumerate() {
        let Op::Send(piece) = step else { continue };
        if index >= first
            && let Some(at) = continuation(&piece.bytes).filter(|at| *at > 0)
        {
            return Ok(offset.saturating_add(u64::try_from(at).unwrap_or(u64::MAX)));
        }
        offset = offset.saturating_add(u64::try_from(piece.bytes.len()).unwrap_or(u64::MAX));
    }
    Err(NO_CHARACTER)
}

const NO_CHARACTER: Unfit = Unfit("expected text beyond ASCII to cut, but found none");
