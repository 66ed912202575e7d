//! The compiler side of `rampart-heap`, changed from wasmtime's `copying.rs`.
//!
//! Compiled code bumps a pointer through the current hole. At its end, it takes the next one of the block for an object
//! that fits any, and calls `gc_alloc_raw` for others, and at the end of the block. If there is no memory,
//! that gives an exception in the place of an object, and compiled code throws it: to the handlers of its own function
//! first. Each store of a reference into an object marks a card as dirty; loads need no barrier. Stack maps tell the
//! collector which references to change when it moves objects.

mod checks;

pub use checks::{check_lost, check_overflow, check_reference, check_thrown, say_thrown, throws_overflow};

use super::*;
use crate::TRAP_INTERNAL_ASSERT;
use crate::func_environ::FuncEnvironment;
use crate::translate::TargetEnvironment;
use cranelift_codegen::ir::{self, InstBuilder};
use cranelift_frontend::FunctionBuilder;
use rampart_heap::wasmtime::{
    HOLE_BYTES, HOLE_LIMIT, HOLES_AHEAD, INSTEAD, MOST_INLINE, NEGATIVE_SIZE, NEXT_HOLE, TOO_LARGE_SIZE,
};
use rampart_heap::{CARD_BYTES, CARDS};
use wasmtime_environ::copying::{
    ALIGN, EXCEPTION_TAG_DEFINED_OFFSET, EXCEPTION_TAG_INSTANCE_OFFSET, InlineTraceInfo,
};
use wasmtime_environ::{
    GcTypeLayouts, ModuleInternedTypeIndex, TypeIndex, VMGcKind, WasmHeapTopType, WasmHeapType,
    WasmRefType, WasmResult, WasmStorageType, WasmValType, copying::CopyingTypeLayouts,
};

#[derive(Default)]
pub struct CopyingCompiler {
    layouts: CopyingTypeLayouts,
}

impl CopyingCompiler {
    /// Load the pointer to the `VMCopyingHeapData` from vmctx.
    fn load_vmcopying_heap_data_ptr(
        func_env: &mut FuncEnvironment<'_>,
        builder: &mut FunctionBuilder,
    ) -> ir::Value {
        let vmctx = func_env.vmctx_val(&mut builder.cursor());
        func_env
            .alias_regions
            .vmctx_gc_heap_data(&mut builder.cursor(), vmctx)
    }

    /// Load the current bump pointer and active-space end from a `*mut
    /// VMCopyingHeapData`.
    ///
    /// Returns `(bump_ptr, active_space_end)` as `i32` values.
    fn load_bump_state(
        func_env: &mut FuncEnvironment<'_>,
        builder: &mut FunctionBuilder,
        ptr_to_heap_data: ir::Value,
    ) -> (ir::Value, ir::Value) {
        let bump_ptr = func_env
            .alias_regions
            .vmcopying_heap_data_bump_ptr(&mut builder.cursor(), ptr_to_heap_data);
        let active_space_end = func_env
            .alias_regions
            .vmcopying_heap_data_active_space_end(&mut builder.cursor(), ptr_to_heap_data);
        (bump_ptr, active_space_end)
    }

    /// Store the new bump pointer into the given `*mut VMCopyingHeapData`.
    fn store_bump_pointer(
        func_env: &mut FuncEnvironment<'_>,
        builder: &mut FunctionBuilder<'_>,
        heap_data_ptr: ir::Value,
        end_of_object: ir::Value,
    ) {
        func_env.alias_regions.store_vmcopying_heap_data_bump_ptr(
            &mut builder.cursor(),
            heap_data_ptr,
            end_of_object,
        );
    }

    /// Round `size` (an `i64`) up to `ALIGN`.
    fn aligned_size(builder: &mut FunctionBuilder, size: ir::Value) -> ir::Value {
        let align_mask = builder.ins().iconst(ir::types::I64, i64::from(ALIGN - 1));
        let inv_align_mask = builder.ins().iconst(ir::types::I64, !i64::from(ALIGN - 1));
        let size_plus_mask = builder.ins().iadd(size, align_mask);
        builder.ins().band(size_plus_mask, inv_align_mask)
    }

    /// The size of an array of `len` elements as an `i64`. It cannot overflow: no element has more than 16 B.
    fn array_size(
        builder: &mut FunctionBuilder<'_>,
        layout: &GcArrayLayout,
        len: ir::Value,
    ) -> ir::Value {
        let len = builder.ins().uextend(ir::types::I64, len);
        let elements = builder.ins().imul_imm_s(len, i64::from(layout.elem_size));
        builder.ins().iadd_imm_s(elements, i64::from(layout.base_size))
    }

    /// What the runtime is asked for: the size as an `i32`, or that there is none. Java's lengths are signed.
    fn asked_size(
        builder: &mut FunctionBuilder<'_>,
        size: ir::Value,
        len: Option<ir::Value>,
    ) -> ir::Value {
        let Some(len) = len else {
            return builder.ins().ireduce(ir::types::I32, size);
        };
        let too_large = builder.ins().iconst(ir::types::I64, i64::from(TOO_LARGE_SIZE));
        let least = builder.ins().umin(size, too_large);
        let least = builder.ins().ireduce(ir::types::I32, least);
        let negative = builder.ins().iconst(ir::types::I32, i64::from(NEGATIVE_SIZE));
        let zero = builder.ins().iconst(ir::types::I32, 0);
        let is_negative = builder.ins().icmp(ir::condcodes::IntCC::SignedLessThan, len, zero);
        builder.ins().select(is_negative, negative, least)
    }

    /// Throws what the runtime gave if that is an exception in the place of an object.
    fn throw_if_refused(
        func_env: &mut FuncEnvironment<'_>,
        builder: &mut FunctionBuilder<'_>,
        given: ir::Value,
    ) -> WasmResult<()> {
        let is_refused = builder.ins().band_imm_u(given, i64::from(INSTEAD));
        let exception = builder.ins().bxor_imm_u(given, i64::from(INSTEAD));
        checks::throw_if(func_env, builder, is_refused, exception)?;
        let is_there = builder.current_block().unwrap();
        builder.set_cold_block(is_there);
        Ok(())
    }

    /// Goes on at the end of a hole: to `fast_block`, with the place of the object and its end, if there is another
    /// hole and the object fits any; else to `runtime_block`.
    fn emit_next_hole(
        func_env: &mut FuncEnvironment<'_>,
        builder: &mut FunctionBuilder<'_>,
        heap_data: ir::Value,
        aligned_size: ir::Value,
        fast_block: ir::Block,
        runtime_block: ir::Block,
    ) {
        let [list_block, hole_block] = [(); 2].map(|()| builder.create_block());
        let current_block = builder.current_block().unwrap();
        builder.insert_block_after(list_block, current_block);
        builder.insert_block_after(hole_block, list_block);
        let fits_any = builder.ins().icmp_imm_u(
            ir::condcodes::IntCC::UnsignedLessThanOrEqual,
            aligned_size,
            i64::from(MOST_INLINE),
        );
        builder.ins().brif(fits_any, list_block, &[], runtime_block, &[]);

        let mut flags = |builder: &mut FunctionBuilder<'_>, offset: usize| {
            let offset = u32::try_from(offset).unwrap();
            let region = func_env.alias_regions.vmcopying_heap_data_region(builder.func, offset);
            ir::MemFlagsData::trusted().with_alias_region(Some(region))
        };
        let of_next = flags(builder, NEXT_HOLE);
        let of_holes = flags(builder, HOLES_AHEAD);
        let of_limit = flags(builder, HOLE_LIMIT);
        let at = |offset: usize| i32::try_from(offset).unwrap();

        builder.switch_to_block(list_block);
        builder.seal_block(list_block);
        builder.set_cold_block(list_block);
        let number = builder.ins().load(ir::types::I32, of_next, heap_data, at(NEXT_HOLE));
        let number_64 = builder.ins().uextend(ir::types::I64, number);
        let bytes = builder.ins().imul_imm_s(number_64, i64::try_from(HOLE_BYTES).unwrap());
        let hole = builder.ins().iadd(heap_data, bytes);
        let start = builder.ins().load(ir::types::I32, of_holes, hole, at(HOLES_AHEAD));
        let limit = builder.ins().load(ir::types::I32, of_holes, hole, at(HOLES_AHEAD + HOLE_BYTES / 2));
        builder.ins().brif(start, hole_block, &[], runtime_block, &[]);

        builder.switch_to_block(hole_block);
        builder.seal_block(hole_block);
        builder.set_cold_block(hole_block);
        let next = builder.ins().iadd_imm_s(number, 1);
        builder.ins().store(of_next, next, heap_data, at(NEXT_HOLE));
        builder.ins().store(of_limit, limit, heap_data, at(HOLE_LIMIT));
        let start_64 = builder.ins().uextend(ir::types::I64, start);
        let end = builder.ins().iadd(start_64, aligned_size);
        builder.ins().jump(fast_block, &[start.into(), end.into()]);
    }

    /// Emit inline bump allocation, falling back to `gc_alloc_raw` on failure.
    ///
    /// `size` must be an `i64` value >= `size_of(VMCopyingHeader)`; `len` is the length of an array.
    ///
    /// Returns `(gc_ref, raw_ptr_to_object)` where `gc_ref` is the `i32` GC
    /// heap index and `raw_ptr_to_object` is a native pointer into the GC heap.
    fn emit_inline_alloc(
        &mut self,
        func_env: &mut FuncEnvironment<'_>,
        builder: &mut FunctionBuilder,
        kind: VMGcKind,
        ty: ModuleInternedTypeIndex,
        size: ir::Value,
        len: Option<ir::Value>,
        reserved_bits: u32,
    ) -> WasmResult<(ir::Value, ir::Value)> {
        debug_assert_ne!(kind, VMGcKind::ExternRef);
        debug_assert!(!ty.is_reserved_value());
        assert_eq!(builder.func.dfg.value_type(size), ir::types::I64);

        let pointer_type = func_env.pointer_type();
        let current_block = builder.current_block().unwrap();
        let fast_block = builder.create_block();
        let slow_block = builder.create_block();
        let merge_block = builder.create_block();

        builder.ensure_inserted_block();
        builder.insert_block_after(fast_block, current_block);
        builder.insert_block_after(slow_block, fast_block);
        builder.insert_block_after(merge_block, slow_block);

        let ptr_to_heap_data = Self::load_vmcopying_heap_data_ptr(func_env, builder);
        let (bump_ptr, active_space_end) =
            Self::load_bump_state(func_env, builder, ptr_to_heap_data);
        let aligned_size_64 = Self::aligned_size(builder, size);

        // Compute `end_of_object = bump_ptr + aligned_size` (in i64) and check
        // whether it fits within the active semi-space.
        let bump_ptr_64 = builder.ins().uextend(ir::types::I64, bump_ptr);
        let end_64 = builder.ins().iadd(bump_ptr_64, aligned_size_64);
        let active_space_end_64 = builder.ins().uextend(ir::types::I64, active_space_end);
        let fits = builder.ins().icmp(
            ir::condcodes::IntCC::UnsignedLessThanOrEqual,
            end_64,
            active_space_end_64,
        );
        let start = builder.append_block_param(fast_block, ir::types::I32);
        let end = builder.append_block_param(fast_block, ir::types::I64);
        builder.ins().brif(fits, fast_block, &[bump_ptr.into(), end_64.into()], slow_block, &[]);

        // Slow path: when there isn't enough room in the bump region, take the next one, or call the `gc_alloc_raw`
        // libcall, which will find another one or collect.
        {
            builder.switch_to_block(slow_block);
            builder.seal_block(slow_block);
            builder.set_cold_block(slow_block);
            let runtime_block = builder.create_block();
            builder.insert_block_after(runtime_block, slow_block);
            Self::emit_next_hole(func_env, builder, ptr_to_heap_data, aligned_size_64, fast_block, runtime_block);

            builder.switch_to_block(runtime_block);
            builder.seal_block(runtime_block);
            builder.set_cold_block(runtime_block);
            let asked = Self::asked_size(builder, size, len);
            let gc_ref = emit_gc_raw_alloc(func_env, builder, kind, ty, asked, ALIGN, reserved_bits);
            Self::throw_if_refused(func_env, builder, gc_ref)?;
            let base = func_env.get_gc_heap_base(builder)?;
            let heap_offset = uextend_i32_to_pointer_type(builder, pointer_type, gc_ref);
            let obj_ptr = builder.ins().iadd(base, heap_offset);
            builder
                .ins()
                .jump(merge_block, &[gc_ref.into(), obj_ptr.into()]);
        }

        // Fast path: there is capacity for the requested object in the bump
        // region, so finish the allocation inline, update our bump pointer,
        // etc...
        {
            builder.switch_to_block(fast_block);
            builder.seal_block(fast_block);

            let gc_ref = start;

            // Update the bump pointer.
            let end_of_object = builder.ins().ireduce(ir::types::I32, end);
            Self::store_bump_pointer(func_env, builder, ptr_to_heap_data, end_of_object);

            // Compute the raw pointer to the new object.
            let base = func_env.get_gc_heap_base(builder)?;
            let heap_offset = uextend_i32_to_pointer_type(builder, pointer_type, gc_ref);
            let obj_ptr = builder.ins().iadd(base, heap_offset);

            // These header writes target the GC heap, so tag them with the
            // GC-heap region (like the null collector does).
            let header_flags = func_env.gc_memflags(&mut builder.func);

            // Write `VMGcHeader::kind` with inline trace info bits included.
            let kind_val = builder
                .ins()
                .iconst(ir::types::I32, i64::from(kind.as_u32() | reserved_bits));
            builder.ins().store(
                header_flags,
                kind_val,
                obj_ptr,
                i32::try_from(wasmtime_environ::VM_GC_HEADER_KIND_OFFSET).unwrap(),
            );

            // Write `VMGcHeader::type_index`.
            let shared_ty = func_env.module_interned_to_shared_ty(&mut builder.cursor(), ty);
            builder.ins().store(
                header_flags,
                shared_ty,
                obj_ptr,
                i32::try_from(wasmtime_environ::VM_GC_HEADER_TYPE_INDEX_OFFSET).unwrap(),
            );

            // Write the size, and with the upper half of the word 0 the collector's word behind it.
            builder.ins().store(
                header_flags,
                aligned_size_64,
                obj_ptr,
                i32::try_from(wasmtime_environ::VM_GC_HEADER_SIZE).unwrap(),
            );

            builder
                .ins()
                .jump(merge_block, &[gc_ref.into(), obj_ptr.into()]);
        }

        // Merge block: takes the GC ref and the raw pointer to the GC object as
        // block parameters.
        builder.switch_to_block(merge_block);
        let gc_ref = builder.append_block_param(merge_block, ir::types::I32);
        let ptr_to_object = builder.append_block_param(merge_block, pointer_type);
        builder.seal_block(merge_block);
        builder.declare_value_needs_stack_map(gc_ref);

        Ok((gc_ref, ptr_to_object))
    }
}

impl GcCompiler for CopyingCompiler {
    fn layouts(&self) -> &dyn GcTypeLayouts {
        &self.layouts
    }

    fn is_moving_collector(&self) -> bool {
        true
    }

    fn alloc_uninit_array(
        &mut self,
        func_env: &mut FuncEnvironment<'_>,
        builder: &mut FunctionBuilder<'_>,
        array_type_index: TypeIndex,
        len: ir::Value,
    ) -> WasmResult<ir::Value> {
        let interned_type_index =
            func_env.module.types[array_type_index].unwrap_module_type_index();

        let len_offset = gc_compiler(func_env)?.layouts().array_length_field_offset();
        let array_layout = func_env.array_layout(interned_type_index)?.clone();
        let reserved_bits = InlineTraceInfo::array(&array_layout).encode();

        // First, compute the array's total size.
        let size = Self::array_size(builder, &array_layout, len);

        // Allocate inline (with fallback to libcall).
        let (array_ref, object_addr) = self.emit_inline_alloc(
            func_env,
            builder,
            VMGcKind::ArrayRef,
            interned_type_index,
            size,
            Some(len),
            reserved_bits,
        )?;
        let len_addr = builder.ins().iadd_imm_s(object_addr, i64::from(len_offset));
        let flags = func_env.gc_memflags(&mut builder.func);
        builder.ins().store(flags, len, len_addr, 0);

        Ok(array_ref)
    }

    fn alloc_struct(
        &mut self,
        func_env: &mut FuncEnvironment<'_>,
        builder: &mut FunctionBuilder<'_>,
        struct_type_index: TypeIndex,
        field_vals: &[ir::Value],
    ) -> WasmResult<ir::Value> {
        let interned_type_index =
            func_env.module.types[struct_type_index].unwrap_module_type_index();
        let struct_layout = func_env.struct_or_exn_layout(interned_type_index);

        let struct_size = struct_layout.size;
        let reserved_bits = InlineTraceInfo::r#struct(&struct_layout).encode();

        let struct_size_val = builder.ins().iconst(ir::types::I64, i64::from(struct_size));

        let (struct_ref, raw_ptr_to_struct) = self.emit_inline_alloc(
            func_env,
            builder,
            VMGcKind::StructRef,
            interned_type_index,
            struct_size_val,
            None,
            reserved_bits,
        )?;

        // Initialize fields.
        initialize_struct_fields(
            func_env,
            builder,
            interned_type_index,
            raw_ptr_to_struct,
            field_vals,
        )?;

        Ok(struct_ref)
    }

    fn alloc_exn(
        &mut self,
        func_env: &mut FuncEnvironment<'_>,
        builder: &mut FunctionBuilder<'_>,
        tag_index: TagIndex,
        field_vals: &[ir::Value],
        instance_id: ir::Value,
        tag: ir::Value,
    ) -> WasmResult<ir::Value> {
        let interned_type_index = func_env.module.tags[tag_index]
            .exception
            .unwrap_module_type_index();
        let exn_layout = func_env.struct_or_exn_layout(interned_type_index);

        let exn_size = exn_layout.size;
        let reserved_bits = InlineTraceInfo::r#struct(&exn_layout).encode();

        let exn_size_val = builder.ins().iconst(ir::types::I64, i64::from(exn_size));

        let (exn_ref, raw_ptr_to_exn) = self.emit_inline_alloc(
            func_env,
            builder,
            VMGcKind::ExnRef,
            interned_type_index,
            exn_size_val,
            None,
            reserved_bits,
        )?;

        // Initialize fields.
        initialize_struct_fields(
            func_env,
            builder,
            interned_type_index,
            raw_ptr_to_exn,
            field_vals,
        )?;

        // Initialize tag fields.
        let instance_id_addr = builder
            .ins()
            .iadd_imm_s(raw_ptr_to_exn, i64::from(EXCEPTION_TAG_INSTANCE_OFFSET));
        self.init_field(
            func_env,
            builder,
            WasmStorageType::Val(WasmValType::I32),
            instance_id_addr,
            instance_id,
        )?;
        let tag_addr = builder
            .ins()
            .iadd_imm_s(raw_ptr_to_exn, i64::from(EXCEPTION_TAG_DEFINED_OFFSET));
        self.init_field(
            func_env,
            builder,
            WasmStorageType::Val(WasmValType::I32),
            tag_addr,
            tag,
        )?;

        Ok(exn_ref)
    }

    fn translate_read_gc_reference(
        &mut self,
        func_env: &mut FuncEnvironment<'_>,
        builder: &mut FunctionBuilder,
        ty: WasmRefType,
        src: ir::Value,
        flags: ir::MemFlagsData,
    ) -> WasmResult<ir::Value> {
        assert!(ty.is_vmgcref_type());

        let (reference_type, _) = func_env.reference_type(ty.heap_type);

        // Special case for references to uninhabited bottom types.
        if let WasmHeapType::None = ty.heap_type {
            let null = builder.ins().iconst(reference_type, 0);
            if flags.trap_code().is_some() {
                let _ = builder.ins().load(reference_type, flags, src, 0);
            }
            if !ty.nullable {
                let zero = builder.ins().iconst(ir::types::I32, 0);
                builder.ins().trapz(zero, TRAP_INTERNAL_ASSERT);
            }
            return Ok(null);
        };

        // Special case for `i31` references: they don't need stack maps.
        if let WasmHeapType::I31 = ty.heap_type {
            return unbarriered_load_gc_ref(builder, ty.heap_type, src, flags);
        }

        // No read barrier needed for the copying collector, but we do need
        // stack maps so the collector can find and relocate roots.
        unbarriered_load_gc_ref(builder, ty.heap_type, src, flags)
    }

    fn translate_write_gc_reference(
        &mut self,
        func_env: &mut FuncEnvironment<'_>,
        builder: &mut FunctionBuilder,
        ty: WasmRefType,
        dst: ir::Value,
        new_val: ir::Value,
        flags: ir::MemFlagsData,
    ) -> WasmResult<()> {
        unbarriered_store_gc_ref(builder, ty.heap_type, dst, new_val, flags)?;
        let heap = func_env.gc_memflags(&mut builder.func);
        // Globals and tables are roots: only fields and elements of objects have cards.
        let is_field = flags.alias_region() == heap.alias_region();
        if !is_field || matches!(ty.heap_type, WasmHeapType::I31 | WasmHeapType::None) {
            return Ok(());
        }
        let base = func_env.get_gc_heap_base(builder)?;
        let offset = builder.ins().isub(dst, base);
        let card = builder.ins().ushr_imm_u(offset, i64::from(CARD_BYTES.ilog2()));
        let cards = builder.ins().iadd_imm_s(base, i64::from(CARDS));
        let at = builder.ins().iadd(cards, card);
        let dirty = builder.ins().iconst(ir::types::I32, 1);
        builder.ins().istore8(heap, dirty, at, 0);
        Ok(())
    }

    fn translate_init_gc_reference(
        &mut self,
        _func_env: &mut FuncEnvironment<'_>,
        builder: &mut FunctionBuilder,
        ty: WasmRefType,
        dst: ir::Value,
        new_val: ir::Value,
        flags: ir::MemFlagsData,
    ) -> WasmResult<()> {
        // An initializing store goes to a young object, which needs no card.
        unbarriered_store_gc_ref(builder, ty.heap_type, dst, new_val, flags)
    }

    fn init_field(
        &mut self,
        func_env: &mut FuncEnvironment<'_>,
        builder: &mut FunctionBuilder<'_>,
        ty: WasmStorageType,
        field_addr: ir::Value,
        val: ir::Value,
    ) -> WasmResult<()> {
        // Data inside GC objects is always little endian.
        let flags = func_env
            .gc_memflags(&mut builder.func)
            .with_endianness(ir::Endianness::Little);

        match ty {
            WasmStorageType::Val(WasmValType::Ref(r)) => match r.heap_type.top() {
                WasmHeapTopType::Func => {
                    write_func_ref_at_addr(func_env, builder, r, flags, field_addr, val)?
                }
                WasmHeapTopType::Extern | WasmHeapTopType::Any | WasmHeapTopType::Exn => {
                    // As in `translate_init_gc_reference`.
                    unbarriered_store_gc_ref(builder, r.heap_type, field_addr, val, flags)?;
                }
                WasmHeapTopType::Cont => return super::stack_switching_unsupported(),
            },
            WasmStorageType::I8 => {
                assert_eq!(builder.func.dfg.value_type(val), ir::types::I32);
                builder.ins().istore8(flags, val, field_addr, 0);
            }
            WasmStorageType::I16 => {
                assert_eq!(builder.func.dfg.value_type(val), ir::types::I32);
                builder.ins().istore16(flags, val, field_addr, 0);
            }
            WasmStorageType::Val(_) => {
                let size_of_access = wasmtime_environ::byte_size_of_wasm_ty_in_gc_heap(&ty);
                assert_eq!(builder.func.dfg.value_type(val).bytes(), size_of_access);
                builder.ins().store(flags, val, field_addr, 0);
            }
        }

        Ok(())
    }
}
