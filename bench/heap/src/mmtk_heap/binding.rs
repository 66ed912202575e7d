//! What MMTk asks of a runtime.

use std::process;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::thread;

use mmtk::scheduler::GCWorker;
use mmtk::util::alloc::AllocationError;
use mmtk::util::copy::{CopySemantics, GCWorkerCopyContext};
use mmtk::util::opaque_pointer::{OpaquePointer, VMMutatorThread, VMThread, VMWorkerThread};
use mmtk::util::{Address, ObjectReference};
use mmtk::vm::slot::UnimplementedMemorySlice;
use mmtk::vm::{
    ActivePlan, Collection, GCThreadContext, ObjectModel, ReferenceGlue, RootsWorkFactory, Scanning, SlotVisitor,
    VMBinding, VMGlobalLogBitSpec, VMLocalForwardingBitsSpec, VMLocalForwardingPointerSpec, VMLocalLOSMarkNurserySpec,
    VMLocalMarkBitSpec,
};
use mmtk::{MMTK, Mutator};

use super::handshake::Handshake;
use super::slot::NarrowSlot;
use crate::heap::{OUT_OF_MEMORY, RootStack};

/// How many roots MMTk gets at a time.
const ROOTS_AT_ONCE: usize = 4096;

/// What the program and the collector share.
pub struct Shared {
    pub mmtk: Box<MMTK<Binding>>,
    pub roots: RootStack,
    pub handshake: Handshake,
    mutator: AtomicPtr<Mutator<Binding>>,
}

/// Of this process.
pub static SHARED: OnceLock<Shared> = OnceLock::new();

impl Shared {
    pub fn new(mmtk: Box<MMTK<Binding>>) -> Self {
        let (roots, handshake) = (RootStack::default(), Handshake::default());
        Self { mmtk, roots, handshake, mutator: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The program's thread has this mutator, which is never freed.
    pub fn set_mutator(&self, mutator: *mut Mutator<Binding>) {
        self.mutator.store(mutator, Ordering::Release);
    }
}

fn shared() -> &'static Shared {
    SHARED.get().expect("MMTk runs once the heap is made")
}

fn mutator() -> &'static mut Mutator<Binding> {
    // SAFETY: MMTk asks for it while the program waits; it was set before the first object, and is never freed.
    unsafe { &mut *shared().mutator.load(Ordering::Acquire) }
}

fn thread_of(number: usize) -> VMThread {
    // SAFETY: MMTk only compares it.
    VMThread(OpaquePointer::from_address(unsafe { Address::from_usize(number) }))
}

/// The program's thread.
pub fn program_thread() -> VMMutatorThread {
    VMMutatorThread(thread_of(1))
}

/// A runtime of one thread.
#[derive(Default)]
pub struct Binding;

impl VMBinding for Binding {
    type VMObjectModel = Objects;
    type VMScanning = Scanner;
    type VMCollection = Collections;
    type VMActivePlan = Mutators;
    type VMReferenceGlue = NoWeakReferences;
    type VMSlot = NarrowSlot;
    type VMMemorySlice = UnimplementedMemorySlice<NarrowSlot>;
    const MIN_ALIGNMENT: usize = 8;
    const MAX_ALIGNMENT: usize = 8;
    const USE_ALLOCATION_OFFSET: bool = false;
}

/// Objects: the size, how many references there are, then these, then bytes.
pub struct Objects;

impl ObjectModel<Binding> for Objects {
    const GLOBAL_LOG_BIT_SPEC: VMGlobalLogBitSpec = VMGlobalLogBitSpec::side_first();
    const LOCAL_FORWARDING_POINTER_SPEC: VMLocalForwardingPointerSpec = VMLocalForwardingPointerSpec::in_header(0);
    const LOCAL_FORWARDING_BITS_SPEC: VMLocalForwardingBitsSpec = VMLocalForwardingBitsSpec::side_first();
    const LOCAL_MARK_BIT_SPEC: VMLocalMarkBitSpec =
        VMLocalMarkBitSpec::side_after(Self::LOCAL_FORWARDING_BITS_SPEC.as_spec());
    const LOCAL_LOS_MARK_NURSERY_SPEC: VMLocalLOSMarkNurserySpec =
        VMLocalLOSMarkNurserySpec::side_after(Self::LOCAL_MARK_BIT_SPEC.as_spec());
    const OBJECT_REF_OFFSET_LOWER_BOUND: isize = 0;
    const UNIFIED_OBJECT_REFERENCE_ADDRESS: bool = true;

    #[inline]
    fn copy(
        from: ObjectReference,
        semantics: CopySemantics,
        context: &mut GCWorkerCopyContext<Binding>,
    ) -> ObjectReference {
        let size = Self::get_current_size(from);
        let to = context.alloc_copy(from, size, 8, 0, semantics);
        // SAFETY: both have so many bytes, and MMTk has just reserved the new place for this copy.
        let to = unsafe {
            ptr::copy_nonoverlapping(from.to_raw_address().to_ptr::<u64>(), to.to_mut_ptr(), size / 8);
            ObjectReference::from_raw_address_unchecked(to)
        };
        context.post_copy(to, size, semantics);
        to
    }

    fn copy_to(_from: ObjectReference, _to: ObjectReference, _region: Address) -> Address {
        unreachable!("only plans that compact call it")
    }

    #[inline]
    fn get_current_size(object: ObjectReference) -> usize {
        // SAFETY: an object begins with its size.
        unsafe { object.to_raw_address().load::<u32>() as usize }
    }

    fn get_size_when_copied(object: ObjectReference) -> usize {
        Self::get_current_size(object)
    }

    fn get_align_when_copied(_object: ObjectReference) -> usize {
        8
    }

    fn get_align_offset_when_copied(_object: ObjectReference) -> usize {
        0
    }

    fn get_reference_when_copied_to(_from: ObjectReference, to: Address) -> ObjectReference {
        // SAFETY: MMTk copies to memory that it has allocated.
        unsafe { ObjectReference::from_raw_address_unchecked(to) }
    }

    fn get_type_descriptor(_reference: ObjectReference) -> &'static [i8] {
        &[]
    }

    #[inline]
    fn ref_to_object_start(object: ObjectReference) -> Address {
        object.to_raw_address()
    }

    #[inline]
    fn ref_to_header(object: ObjectReference) -> Address {
        object.to_raw_address()
    }

    fn dump_object(object: ObjectReference) {
        eprintln!("{object}, {} bytes", Self::get_current_size(object));
    }
}

/// Finds references.
pub struct Scanner;

impl Scanning<Binding> for Scanner {
    fn scan_roots_in_mutator_thread(
        _worker: VMWorkerThread,
        _mutator: &'static mut Mutator<Binding>,
        mut factory: impl RootsWorkFactory<NarrowSlot>,
    ) {
        for some in shared().roots.held().chunks(ROOTS_AT_ONCE) {
            let slot = |root: &AtomicU32| NarrowSlot::at(Address::from_ref(root));
            factory.create_process_roots_work(some.iter().map(slot).collect());
        }
    }

    fn scan_vm_specific_roots(_worker: VMWorkerThread, _factory: impl RootsWorkFactory<NarrowSlot>) {}

    #[inline]
    fn scan_object<V: SlotVisitor<NarrowSlot>>(_worker: VMWorkerThread, object: ObjectReference, visitor: &mut V) {
        let start = object.to_raw_address();
        // SAFETY: the second word of an object says how many references it has.
        let references = unsafe { (start + 4_usize).load::<u32>() as usize };
        for number in 0..references {
            visitor.visit_slot(NarrowSlot::at(start + super::HEADER as usize + 4 * number));
        }
    }

    fn notify_initial_thread_scan_complete(_partial: bool, _worker: VMWorkerThread) {}

    fn supports_return_barrier() -> bool {
        false
    }

    fn prepare_for_roots_re_scanning() {}
}

/// How a collection stops the program.
pub struct Collections;

impl Collection<Binding> for Collections {
    fn stop_all_mutators<F: FnMut(&'static mut Mutator<Binding>)>(_worker: VMWorkerThread, mut visit: F) {
        shared().handshake.stop_program();
        visit(mutator());
    }

    fn resume_mutators(_worker: VMWorkerThread) {
        shared().handshake.resume_program();
    }

    fn block_for_gc(_thread: VMMutatorThread) {
        shared().handshake.wait();
    }

    fn spawn_gc_thread(_thread: VMThread, context: GCThreadContext<Binding>) {
        let GCThreadContext::Worker(worker) = context;
        let run = |worker: Box<GCWorker<Binding>>| {
            let thread = VMWorkerThread(thread_of(worker.ordinal + 2));
            mmtk::memory_manager::start_worker(&shared().mmtk, thread, worker);
        };
        thread::spawn(move || run(worker));
    }

    fn out_of_memory(_thread: VMThread, _error: AllocationError) {
        process::exit(OUT_OF_MEMORY);
    }
}

/// The only mutator.
pub struct Mutators;

impl ActivePlan<Binding> for Mutators {
    fn number_of_mutators() -> usize {
        1
    }

    fn is_mutator(thread: VMThread) -> bool {
        thread == program_thread().0
    }

    fn mutator(_thread: VMMutatorThread) -> &'static mut Mutator<Binding> {
        mutator()
    }

    fn mutators<'a>() -> Box<dyn Iterator<Item = &'a mut Mutator<Binding>> + 'a> {
        Box::new(std::iter::once(mutator()))
    }
}

/// Programs have none.
pub struct NoWeakReferences;

impl ReferenceGlue<Binding> for NoWeakReferences {
    type FinalizableType = ObjectReference;

    fn set_referent(_reference: ObjectReference, _referent: ObjectReference) {}

    fn get_referent(_object: ObjectReference) -> Option<ObjectReference> {
        None
    }

    fn clear_referent(_object: ObjectReference) {}

    fn enqueue_references(_references: &[ObjectReference], _worker: VMWorkerThread) {}
}
