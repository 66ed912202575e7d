import org.apache.commons.math3.transform.DftNormalization;
import org.apache.commons.math3.transform.FastFourierTransformer;
import org.apache.commons.math3.transform.FastHadamardTransformer;
import org.apache.commons.math3.transform.TransformType;

/** Commons Math keeps recordings, and transforms, filters and compares them: arrays of 32 KiB to 256 KiB. */
public class Signals {
    static double[] recording(Seed seed) {
        double[] recording = new double[1 << 12 + seed.below(4)];
        for (int i = 0; i < recording.length; i++) {
            recording[i] = seed.below(256) - 128;
        }
        return recording;
    }

    public static void main(String[] arguments) {
        Seed seed = new Seed(61);
        double[][] table = new double[80][];
        for (int i = 0; i < table.length; i++) {
            table[i] = recording(seed);
        }
        FastHadamardTransformer hadamard = new FastHadamardTransformer();
        int rounds = Seed.rounds(arguments, 200);
        long hash = 0;
        for (int round = 0; round < rounds; round++) {
            double[] signal = table[seed.below(table.length)];
            double[] spectrum = hadamard.transform(signal, TransformType.FORWARD);
            for (int i = 0; i < spectrum.length; i++) {
                spectrum[i] = Math.abs(spectrum[i]) < 4096 ? 0 : spectrum[i];
            }
            double[] filtered = hadamard.transform(spectrum, TransformType.INVERSE);
            double[][] parts = {filtered.clone(), new double[filtered.length]};
            FastFourierTransformer.transformInPlace(parts, DftNormalization.STANDARD, TransformType.FORWARD);
            double energy = 0;
            for (int i = 0; i < filtered.length; i++) {
                energy += parts[0][i] * parts[0][i] + parts[1][i] * parts[1][i];
                hash = Seed.mix(hash, (long) filtered[i]);
            }
            hash = Seed.mix(hash, (long) (energy / filtered.length / 1000));
            table[seed.below(table.length)] = seed.below(4) == 0 ? recording(seed) : filtered;
        }
        System.out.println(Long.toHexString(hash));
    }
}
