//! MMTk's collectors: one program thread and one collector thread, in the lowest 4 GiB of addresses, as runtimes with
//! references of 32 bits have them.

#![expect(unsafe_code, reason = "MMTk gives and takes addresses")]

mod binding;
mod handshake;
mod slot;

use std::process;

use mmtk::util::alloc::{AllocatorInfo, BumpPointer};
use mmtk::util::heap::vm_layout::VMLayout;
use mmtk::util::options::GCTriggerSelector;
use mmtk::util::{Address, ObjectReference};
use mmtk::vm::ObjectModel;
use mmtk::{AllocationSemantics, MMTKBuilder, Mutator, memory_manager};

use crate::heap::{HeapUnderTest, OUT_OF_MEMORY, Reference, RootStack};
use binding::{Binding, Objects, SHARED, Shared};
use slot::NarrowSlot;

/// The bytes before an object's references: its size, and how many references it has.
const HEADER: u32 = 8;

/// Larger objects do not use the inlined allocation.
const INLINED: usize = 1024;

/// A heap of MMTk.
pub struct BoundHeap {
    mutator: *mut Mutator<Binding>,
    /// Where objects are allocated without a call, if the plan allocates that way.
    bump: Option<*mut BumpPointer>,
    /// Objects of more bytes have a space of their own.
    most_default: usize,
    shared: &'static Shared,
    has_barrier: bool,
}

/// The same, and whether stores need a barrier.
pub struct MmtkHeap<const BARRIER: bool>(pub BoundHeap);

impl BoundHeap {
    /// The only heap of this process: a plan with so many bytes, tables included.
    pub fn new(plan: &str, bytes: u64) -> Self {
        let bytes = usize::try_from(bytes).expect("addresses have 64 bits");
        let mut builder = MMTKBuilder::new_no_env_vars();
        builder.set_vm_layout(VMLayout {
            log_address_space: 32,
            // SAFETY: an address as a number, which MMTk itself maps.
            heap_start: unsafe { Address::from_usize(0x4000_0000) },
            // SAFETY: as above.
            heap_end: unsafe { Address::from_usize(0xf000_0000) },
            log_space_extent: 31,
            force_use_contiguous_spaces: false,
        });
        let is_set = builder.set_option("plan", plan)
            && builder.options.gc_trigger.set(GCTriggerSelector::FixedHeapSize(bytes))
            && builder.options.threads.set(1);
        if !is_set {
            eprintln!("MMTk does not take a heap of {bytes} bytes");
            process::exit(OUT_OF_MEMORY);
        }
        let shared = SHARED.get_or_init(|| Shared::new(memory_manager::mmtk_init(&builder)));
        let plan = shared.mmtk.get_plan();
        let most_default = plan.constraints().max_non_los_default_alloc_bytes;
        let has_barrier = plan.constraints().barrier != mmtk::plan::BarrierSelector::NoBarrier;
        let mutator = Box::into_raw(memory_manager::bind_mutator(&shared.mmtk, binding::program_thread()));
        shared.set_mutator(mutator);
        memory_manager::initialize_collection(&shared.mmtk, binding::program_thread().0);
        let selector = memory_manager::get_allocator_mapping(&shared.mmtk, AllocationSemantics::Default);
        let bump = match AllocatorInfo::new::<Binding>(selector) {
            // SAFETY: MMTk says that a bump pointer lies there in the mutator, which is never freed or moved.
            AllocatorInfo::BumpPointer { bump_pointer_offset } => unsafe {
                Some(mutator.cast::<u8>().add(bump_pointer_offset).cast())
            },
            AllocatorInfo::Unimplemented | AllocatorInfo::None => None,
        };
        Self { mutator, bump, most_default, shared, has_barrier }
    }

    /// Whether stores need a barrier.
    pub const fn has_barrier(&self) -> bool {
        self.has_barrier
    }

    #[inline]
    fn take(&mut self, bytes: usize) -> Address {
        if let Some(bump) = self.bump
            && bytes <= INLINED
        {
            // SAFETY: only this thread allocates here, and no collection runs meanwhile.
            let bump = unsafe { &mut *bump };
            let end = bump.cursor + bytes;
            if end <= bump.limit {
                return std::mem::replace(&mut bump.cursor, end);
            }
        }
        self.take_by_call(bytes)
    }

    #[inline(never)]
    fn take_by_call(&mut self, bytes: usize) -> Address {
        let is_large = bytes > self.most_default;
        let semantics = if is_large { AllocationSemantics::Los } else { AllocationSemantics::Default };
        // SAFETY: the mutator lives as long as the process. A collection uses it only while this thread waits.
        let mutator = unsafe { &mut *self.mutator };
        let at = memory_manager::alloc(mutator, bytes, 8, 0, semantics);
        // SAFETY: memory that was just allocated is neither 0 nor unaligned.
        let object = unsafe { ObjectReference::from_raw_address_unchecked(at) };
        memory_manager::post_alloc(mutator, object, bytes, semantics);
        at
    }

    /// After a store into an object that is old, as far as MMTk knows.
    #[cold]
    #[inline(never)]
    fn remember(&mut self, object: Reference, slot: Address, value: Reference) {
        // SAFETY: as in `take_by_call`.
        let mutator = unsafe { &mut *self.mutator };
        let value = ObjectReference::from_raw_address(address(value));
        memory_manager::object_reference_write_post(mutator, of(object), NarrowSlot::at(slot), value);
    }
}

/// The address of an object, or 0.
#[inline]
fn address(object: Reference) -> Address {
    // SAFETY: a number as an address; whoever uses it says why it may.
    unsafe { Address::from_usize(object as usize) }
}

#[inline]
fn of(object: Reference) -> ObjectReference {
    debug_assert_ne!(object, 0);
    // SAFETY: programs use no reference that is 0.
    unsafe { ObjectReference::from_raw_address_unchecked(address(object)) }
}

#[inline]
fn slot_of(object: Reference, slot: u32) -> Address {
    address(object + HEADER + 4 * slot)
}

impl<const BARRIER: bool> HeapUnderTest for MmtkHeap<BARRIER> {
    #[inline]
    fn allocate(&mut self, references: u32, bytes: u32) -> Reference {
        let size = (HEADER + 4 * references + bytes).next_multiple_of(8);
        let at = self.0.take(size as usize);
        // SAFETY: the object is new, and this thread's; MMTk has filled it with zeros.
        unsafe {
            at.store(size);
            (at + 4_usize).store(references);
        }
        u32::try_from(at.as_usize()).unwrap_or_else(|_| unreachable!("the heap lies in the lowest 4 GiB"))
    }

    #[inline]
    fn load(&self, object: Reference, slot: u32) -> Reference {
        // SAFETY: programs use slots that their objects have.
        unsafe { slot_of(object, slot).load() }
    }

    #[inline]
    fn store(&mut self, object: Reference, slot: u32, value: Reference) {
        let at = slot_of(object, slot);
        // SAFETY: as for `load`.
        unsafe { at.store(value) };
        // SAFETY: MMTk keeps this bit of each object.
        if BARRIER && unsafe { Objects::GLOBAL_LOG_BIT_SPEC.load::<Binding, u8>(of(object), None) } != 0 {
            self.0.remember(object, at, value);
        }
    }

    #[inline]
    fn write_double(&mut self, object: Reference, references: u32, index: u32, value: u64) {
        // SAFETY: programs write bytes that their objects have; the references are an even number.
        unsafe { (slot_of(object, references) + 8 * index as usize).store(value) };
    }

    fn roots(&self) -> &RootStack {
        &self.0.shared.roots
    }

    fn pauses(&self) -> Vec<f64> {
        self.0.shared.handshake.pauses()
    }
}
