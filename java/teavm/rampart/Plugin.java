package rampart;

import java.util.List;
import org.teavm.dependency.AbstractDependencyListener;
import org.teavm.dependency.DependencyAgent;
import org.teavm.dependency.MethodDependency;
import org.teavm.model.BasicBlock;
import org.teavm.model.ClassHolder;
import org.teavm.model.ClassHolderTransformer;
import org.teavm.model.ClassHolderTransformerContext;
import org.teavm.model.Instruction;
import org.teavm.model.MethodHolder;
import org.teavm.model.MethodReference;
import org.teavm.model.ValueType;
import org.teavm.model.instructions.ConstructArrayInstruction;
import org.teavm.model.instructions.ConstructMultiArrayInstruction;
import org.teavm.model.instructions.InvocationType;
import org.teavm.model.instructions.InvokeInstruction;
import org.teavm.vm.spi.TeaVMHost;
import org.teavm.vm.spi.TeaVMPlugin;

/**
 * Tells TeaVM which errors come from allocations. TeaVM compiles the handlers of an exception only for the classes that
 * some code throws, and knows of no code that throws an OutOfMemoryError. So it is told that each method may. An array
 * is made without a call: one of a method that does nothing is put before it.
 */
public final class Plugin implements TeaVMPlugin {
    private static final List<ValueType> ERRORS =
        List.of(ValueType.parse(OutOfMemoryError.class), ValueType.parse(NegativeArraySizeException.class));

    @Override
    public void install(TeaVMHost host) {
        host.add(new AllThrow());
        host.add(new ArraysThrow());
    }

    private static final class AllThrow extends AbstractDependencyListener {
        @Override
        public void methodReached(DependencyAgent agent, MethodDependency method) {
            ERRORS.forEach(error -> method.getThrown().propagate(agent.getType(error)));
        }
    }

    private static final class ArraysThrow implements ClassHolderTransformer {
        @Override
        public void transformClass(ClassHolder type, ClassHolderTransformerContext context) {
            for (MethodHolder method : type.getMethods()) {
                if (method.getProgram() != null) {
                    method.getProgram().getBasicBlocks().forEach(ArraysThrow::transformBlock);
                }
            }
        }

        private static void transformBlock(BasicBlock block) {
            if (block.getTryCatchBlocks().isEmpty()) {
                return;
            }
            for (Instruction instruction : block) {
                if (instruction instanceof ConstructArrayInstruction
                    || instruction instanceof ConstructMultiArrayInstruction) {
                    InvokeInstruction call = new InvokeInstruction();
                    call.setType(InvocationType.SPECIAL);
                    call.setMethod(new MethodReference(Errors.class, "mayThrow", void.class));
                    call.setLocation(instruction.getLocation());
                    instruction.insertPrevious(call);
                }
            }
        }
    }
}
