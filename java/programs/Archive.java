import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.tukaani.xz.LZMA2Options;
import org.tukaani.xz.LZMAInputStream;
import org.tukaani.xz.LZMAOutputStream;

/** XZ packs and unpacks texts; an archive of packed ones stays. */
public class Archive {
    static byte[] text(Seed seed, byte[][] words, int bytes) {
        byte[] text = new byte[bytes];
        for (int at = 0; at < bytes;) {
            byte[] word = words[Math.min(seed.below(words.length), seed.below(words.length))];
            for (int i = 0; i <= word.length && at < bytes; i++) {
                text[at++] = i < word.length ? word[i] : (byte) ' ';
            }
        }
        return text;
    }

    /** The first half of a text, and the second half of another. */
    static byte[] spliced(byte[] first, byte[] second) {
        byte[] both = Arrays.copyOf(first, first.length / 2 + second.length / 2);
        System.arraycopy(second, second.length - second.length / 2, both, first.length / 2, second.length / 2);
        return both;
    }

    static byte[] pack(byte[] bytes) throws IOException {
        LZMA2Options options = new LZMA2Options(2);
        options.setDictSize(1 << 16);
        ByteArrayOutputStream packed = new ByteArrayOutputStream();
        try (LZMAOutputStream out = new LZMAOutputStream(packed, options, bytes.length)) {
            out.write(bytes);
        }
        return packed.toByteArray();
    }

    static byte[] unpack(byte[] packed, int bytes) throws IOException {
        byte[] result = new byte[bytes];
        try (LZMAInputStream in = new LZMAInputStream(new ByteArrayInputStream(packed))) {
            for (int at = 0, got; at < bytes && (got = in.read(result, at, bytes - at)) > 0; at += got) {
                continue;
            }
        }
        return result;
    }

    public static void main(String[] arguments) throws IOException {
        Seed seed = new Seed(11);
        byte[][] words = new byte[2000][];
        for (int i = 0; i < words.length; i++) {
            words[i] = seed.word().getBytes(StandardCharsets.US_ASCII);
        }
        byte[][] texts = new byte[160][];
        byte[][] archive = new byte[texts.length][];
        for (int i = 0; i < texts.length; i++) {
            texts[i] = text(seed, words, 20000 + seed.below(50000));
        }
        int rounds = Seed.rounds(arguments, 30);
        long hash = 0;
        for (int round = 0; round < rounds; round++) {
            int at = seed.below(texts.length);
            if (archive[at] != null) {
                hash = Seed.mix(hash, unpack(archive[at], texts[at].length));
                texts[at] = spliced(texts[at], texts[seed.below(texts.length)]);
            }
            archive[at] = pack(texts[at]);
            hash = Seed.mix(hash, archive[at]);
            hash = Seed.mix(hash, unpack(archive[at], texts[at].length));
        }
        System.out.println(Long.toHexString(hash));
    }
}
