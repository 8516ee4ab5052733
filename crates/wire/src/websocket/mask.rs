//! Masking (RFC 6455 5.3).

/// The octets that one step of the loop covers: a multiple of the key's, wide enough for every vector unit.
const STEP: usize = 64;

/// Applies `key` to `bytes`, which begin `offset` octets after the start of the frame's content. Applying it twice restores them.
pub fn apply_mask(bytes: &mut [u8], key: [u8; 4], offset: usize) {
    let mut key = key;
    key.rotate_left(offset % 4);
    let mut wide = [0; STEP];
    for part in wide.as_chunks_mut::<4>().0 {
        *part = key;
    }
    let (steps, rest) = bytes.as_chunks_mut::<STEP>();
    for step in steps {
        for (byte, mask) in step.iter_mut().zip(wide) {
            *byte ^= mask;
        }
    }
    for (byte, mask) in rest.iter_mut().zip(wide) {
        *byte ^= mask;
    }
}
