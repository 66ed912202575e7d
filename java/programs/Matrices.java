import org.ejml.data.DMatrixRMaj;
import org.ejml.dense.row.CommonOps_DDRM;
import org.ejml.dense.row.factory.DecompositionFactory_DDRM;
import org.ejml.interfaces.decomposition.SingularValueDecomposition_F64;

/** EJML keeps a table of small matrices, and multiplies, solves and decomposes them. */
public class Matrices {
    static DMatrixRMaj matrix(Seed seed) {
        int size = 8 + seed.below(23);
        DMatrixRMaj matrix = new DMatrixRMaj(size, size);
        for (int i = 0; i < size * size; i++) {
            matrix.data[i] = seed.real() - 0.5;
        }
        for (int i = 0; i < size; i++) {
            matrix.add(i, i, 3);
        }
        return matrix;
    }

    public static void main(String[] arguments) {
        Seed seed = new Seed(77);
        DMatrixRMaj[] table = new DMatrixRMaj[3000];
        for (int i = 0; i < table.length; i++) {
            table[i] = matrix(seed);
        }
        int rounds = Seed.rounds(arguments, 3000);
        double sum = 0;
        for (int round = 0; round < rounds; round++) {
            DMatrixRMaj left = table[seed.below(table.length)];
            DMatrixRMaj inverse = new DMatrixRMaj(left.numRows, left.numCols);
            CommonOps_DDRM.invert(left, inverse);
            DMatrixRMaj product = new DMatrixRMaj(left.numRows, left.numCols);
            CommonOps_DDRM.mult(left, inverse, product);
            sum += CommonOps_DDRM.trace(product) + CommonOps_DDRM.det(inverse);
            if (round % 8 == 0) {
                SingularValueDecomposition_F64<DMatrixRMaj> svd =
                    DecompositionFactory_DDRM.svd(left.numRows, left.numCols, true, true, false);
                svd.decompose(left.copy());
                sum += svd.getSingularValues()[0] + Math.abs(svd.getU(null, false).unsafe_get(1, 1));
            }
            boolean isNew = seed.below(3) == 0 || inverse.numRows > 20;
            table[seed.below(table.length)] = isNew ? matrix(seed) : left.copy();
        }
        System.out.println(rounds + " rounds, sum " + Math.round(sum * 1000));
    }
}
