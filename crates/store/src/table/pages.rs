//! Large zeroed memory, aligned to cache lines, that takes no physical memory until it is used.
//!
//! `Box` cannot do this: the system allocator clears over-aligned memory explicitly, which would make a table of ten
//! million keys resident at once.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::Deref;
use std::ptr::NonNull;

const CACHE_LINE: usize = 64;
/// The size of a large page. Larger tables request such pages, which saves a second miss in the page tables on every
/// miss in the table.
const LARGE_PAGE: usize = 2 << 20;

/// A fixed slice of values that are valid when all their bytes are zero.
pub(crate) struct Pages<T> {
    start: NonNull<T>,
    len: usize,
    allocation: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it owns its values as a `Box<[T]>` would, and gives only shared access.
unsafe impl<T: Send> Send for Pages<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Pages<T> {}

impl<T> Pages<T> {
    /// # Safety
    /// All zero bytes must be a valid `T`, and `T` must not need dropping.
    pub(crate) unsafe fn zeroed(len: usize) -> Pages<T> {
        const { assert!(std::mem::align_of::<T>() <= CACHE_LINE && !std::mem::needs_drop::<T>()) };
        let bytes = len.saturating_mul(size_of::<T>());
        let align = if bytes >= LARGE_PAGE { LARGE_PAGE } else { CACHE_LINE };
        let layout = bytes.checked_add(align).and_then(|size| Layout::from_size_align(size, 16).ok());
        let Some(layout) = layout else { panic!("a table of {len} lines does not fit the address space") };
        // SAFETY: the layout is not empty, because `align` was added.
        let Some(allocation) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        let skip = allocation.align_offset(align);
        // SAFETY: `skip < align`, and `align` more bytes than needed were allocated.
        let start = unsafe { allocation.add(skip) };
        advise_large_pages(start, bytes);
        Pages { start: start.cast(), len, allocation, layout }
    }
}

impl<T> Deref for Pages<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `len` values, zeroed and therefore valid, aligned, and ours until the drop.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for Pages<T> {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; the values need no drop.
        unsafe { dealloc(self.allocation.as_ptr(), self.layout) };
    }
}

/// Advises the system to use large pages. It affects speed only.
fn advise_large_pages(start: NonNull<u8>, bytes: usize) {
    #[cfg(target_os = "linux")]
    if bytes >= LARGE_PAGE {
        // SAFETY: the range is ours, and this advice does not change its contents.
        unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes);
}
