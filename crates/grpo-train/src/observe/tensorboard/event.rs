//! The protocol-buffer messages of an event file, as far as scalars need them.
//!
//! ```text
//! Event      { 1: double wall_time, 2: int64 step, 3: string file_version | 5: Summary summary | 7: SessionLog session_log }
//! Summary    { 1: repeated Value { 1: string tag, 2: float simple_value } }
//! SessionLog { 1: enum status (1: START) }
//! ```
//!
//! # Source
//! TensorFlow, `core/util/event.proto` and `core/framework/summary.proto`.

/// What an event says.
pub enum What<'a> {
    /// The first event of each file.
    FileVersion,
    /// A run begins at this step: whatever a reader holds of this step and later ones came from a run that was cut off.
    Start,
    /// Scalars: tag and value.
    Scalars(&'a [(&'a str, f32)]),
}

/// One event as bytes. `wall_time` is in seconds since 1970.
pub fn event(wall_time: f64, step: u64, what: &What<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    key(&mut out, 1, Wire::Fixed64);
    out.extend(wall_time.to_le_bytes());
    // Written also where it is 0, which the format does not ask for: `step` finds it in every event.
    key(&mut out, 2, Wire::Varint);
    varint(&mut out, step);
    match what {
        What::FileVersion => bytes(&mut out, 3, b"brain.Event:2"),
        What::Start => bytes(&mut out, 7, &[0x08, 0x01]),
        What::Scalars(scalars) => {
            let mut summary = Vec::new();
            for (tag, value) in *scalars {
                let mut one = Vec::new();
                bytes(&mut one, 1, tag.as_bytes());
                key(&mut one, 2, Wire::Fixed32);
                one.extend(value.to_le_bytes());
                bytes(&mut summary, 1, &one);
            }
            bytes(&mut out, 5, &summary);
        }
    }
    out
}

/// The step of an event that [`event`] wrote. `None` where it is none.
pub fn step(event: &[u8]) -> Option<u64> {
    let (head, rest) = event.split_at_checked(10)?;
    if head.first() != Some(&0x09) || head.last() != Some(&0x10) {
        return None;
    }
    split_varint(rest).map(|(step, _)| step)
}

/// The tag of the first scalar of an event that [`event`] wrote. `None` where there is none.
pub fn first_tag(event: &[u8]) -> Option<&[u8]> {
    let (_, rest) = event.split_at_checked(10)?;
    let (_, rest) = split_varint(rest)?; // the step
    let mut inner = rest;
    // Summary, its first value, and that one's tag: each is a key, a length and so many bytes.
    for key in [0x2a, 0x0a, 0x0a] {
        let (length, content) = split_varint(inner.strip_prefix(&[key])?)?;
        inner = content.get(..usize::try_from(length).ok()?)?;
    }
    Some(inner)
}

/// A number, and what follows it.
fn split_varint(mut bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (mut value, mut shift) = (0u64, 0);
    loop {
        let (byte, rest) = bytes.split_first()?;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some((value, rest));
        }
        (bytes, shift) = (rest, shift + 7);
    }
}

/// How a field is laid out.
#[derive(Clone, Copy)]
enum Wire {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    Fixed32 = 5,
}

fn key(out: &mut Vec<u8>, field: u64, wire: Wire) {
    varint(out, field << 3 | wire as u64);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    key(out, field, Wire::Bytes);
    varint(out, value.len() as u64);
    out.extend(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scalar_is_the_bytes_that_protobuf_prescribes() {
        // Event { wall_time: 2, step: 300, summary { value { tag: "kl", simple_value: 0.5 } } }, encoded by hand.
        let expected = [
            &[0x09, 0, 0, 0, 0, 0, 0, 0, 0x40][..], // 1: 2.0
            &[0x10, 0xac, 0x02],                    // 2: 300
            &[0x2a, 11, 0x0a, 9],                   // 5: summary of 11 bytes; its 1: value of 9 bytes
            &[0x0a, 2, b'k', b'l'],                 // 1: tag
            &[0x15, 0, 0, 0, 0x3f],                 // 2: 0.5
        ]
        .concat();
        assert_eq!(event(2.0, 300, &What::Scalars(&[("kl", 0.5)])), expected);
    }

    #[test]
    fn the_step_of_every_kind_of_event_is_read_back() {
        for at in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            for what in [What::FileVersion, What::Start, What::Scalars(&[("reward", 1.0)])] {
                assert_eq!(step(&event(1.5, at, &what)), Some(at));
            }
        }
        assert_eq!(first_tag(&event(1.5, 300, &What::Scalars(&[("reward", 1.0), ("kl", 0.5)]))), Some(&b"reward"[..]));
        assert_eq!((first_tag(&event(1.5, 3, &What::Start)), first_tag(b"")), (None, None));
        assert_eq!(step(b""), None);
        assert_eq!(step(&[0x09; 40]), None);
    }
}
