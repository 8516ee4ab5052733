//! The C library's allocator, which CPython's large objects and Rust's come from: what it keeps, and what it gives back.
//!
//! Nothing happens, and nothing is known, where the C library is not glibc.

#[cfg(target_env = "gnu")]
use gnu as library;
#[cfg(not(target_env = "gnu"))]
use other as library;

pub(crate) use library::{give_back, used_bytes};

/// Variables of the environment in which an operator says how many arenas there may be.
const ARENAS_VARIABLES: [(&str, &str); 2] = [
    ("MALLOC_ARENA_MAX", ""),
    ("GLIBC_TUNABLES", "glibc.malloc.arena_max"),
];

/// Lets the allocator keep so many freed bytes in each arena, in place of giving them back to the system at once and asking for them
/// again: parts of contents come and go by the megabyte.
///
/// It stops glibc from raising by itself the size from which it maps memory for a block alone. That would stay below the 256 KiB that
/// asyncio makes for each read: three system calls and a page fault (bench: loops). So it is set too.
pub(crate) fn keep_freed(bytes: i32) {
    const MAPPED_BYTES_MIN: i32 = 512 * 1024;
    library::set(library::TRIM_THRESHOLD, bytes);
    library::set(library::MMAP_THRESHOLD, MAPPED_BYTES_MIN);
}

/// Lets all threads have `count` arenas together; nothing where the environment says how many. Each keeps freed memory of its own, which
/// [`give_back`] takes from the first one only, and threads that have to hold the interpreter hardly wait for each other here.
pub(crate) fn share_arenas(count: i32) {
    let is_said =
        |(name, text): &(&str, &str)| std::env::var(name).is_ok_and(|value| value.contains(text));
    if !ARENAS_VARIABLES.iter().any(is_said) {
        library::set(library::ARENA_MAX, count);
    }
}

#[cfg(target_env = "gnu")]
mod gnu {
    use std::ffi::{c_char, c_int, c_void};
    use std::ptr;
    use std::sync::OnceLock;

    pub(super) const TRIM_THRESHOLD: c_int = -1;
    pub(super) const MMAP_THRESHOLD: c_int = -3;
    pub(super) const ARENA_MAX: c_int = -8;

    /// `struct mallinfo2` of malloc.h.
    #[repr(C)]
    struct Figures {
        _heap_bytes: usize,
        _blocks: [usize; 3],
        mapped_bytes: usize,
        _fast: [usize; 2],
        used_bytes: usize,
        _free: [usize; 2],
    }

    type Count = unsafe extern "C" fn() -> Figures;

    // SAFETY: the declarations are the C library's own (malloc.h, dlfcn.h).
    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
        fn malloc_trim(kept_bytes: usize) -> c_int;
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    }

    pub(super) fn set(parameter: c_int, value: c_int) {
        // SAFETY: any value may be passed; one that is not taken leaves everything as it is.
        unsafe { mallopt(parameter, value) };
    }

    /// Gives every whole page that is free back to the system. Takes a tenth of a millisecond per megabyte.
    pub(crate) fn give_back() {
        // SAFETY: needs nothing; other threads wait for it.
        unsafe { malloc_trim(0) };
    }

    /// Bytes in blocks that are in use; 0 with a glibc before 2.33, which counts in 32 bits.
    pub(crate) fn used_bytes() -> u64 {
        static COUNT: OnceLock<Option<Count>> = OnceLock::new();
        let Some(count) = COUNT.get_or_init(find) else {
            return 0;
        };
        // SAFETY: needs nothing.
        let figures = unsafe { count() };
        (figures.used_bytes + figures.mapped_bytes) as u64
    }

    fn find() -> Option<Count> {
        // SAFETY: a null library means all that are loaded, and the name ends in a zero.
        let found = unsafe { dlsym(ptr::null_mut(), c"mallinfo2".as_ptr()) };
        // SAFETY: what has this name is that function, and null is no function's address.
        unsafe { std::mem::transmute::<*mut c_void, Option<Count>>(found) }
    }
}

#[cfg(not(target_env = "gnu"))]
mod other {
    pub(super) const TRIM_THRESHOLD: i32 = 0;
    pub(super) const MMAP_THRESHOLD: i32 = 0;
    pub(super) const ARENA_MAX: i32 = 0;

    pub(super) fn set(_parameter: i32, _value: i32) {}

    pub(crate) fn give_back() {}

    pub(crate) fn used_bytes() -> u64 {
        0
    }
}
