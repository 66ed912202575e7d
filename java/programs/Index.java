import org.apache.lucene.analysis.WhitespaceAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.SerialMergeScheduler;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.BooleanClause;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.search.TopDocs;
import org.apache.lucene.store.RAMDirectory;

/** Lucene indexes texts in memory, as in DaCapo's luindex, and searches them, as in lusearch. */
public class Index {
    public static void main(String[] arguments) throws Exception {
        Seed seed = new Seed(21);
        RAMDirectory directory = new RAMDirectory();
        int rounds = Seed.rounds(arguments, 4);
        long hash = 0;
        for (int round = 0; round < rounds; round++) {
            IndexWriter writer = new IndexWriter(directory, new WhitespaceAnalyzer(), round == 0,
                IndexWriter.MaxFieldLength.UNLIMITED);
            writer.setMergeScheduler(new SerialMergeScheduler());
            for (int i = 0; i < 500; i++) {
                Document document = new Document();
                document.add(new Field("name", seed.words(3), Field.Store.YES, Field.Index.NOT_ANALYZED));
                document.add(new Field("text", seed.words(60), Field.Store.YES, Field.Index.ANALYZED));
                writer.addDocument(document);
            }
            writer.close();
            IndexSearcher searcher = new IndexSearcher(directory);
            for (int i = 0; i < 100; i++) {
                BooleanQuery query = new BooleanQuery();
                query.add(new TermQuery(new Term("text", seed.word())), BooleanClause.Occur.SHOULD);
                query.add(new TermQuery(new Term("text", seed.word())), BooleanClause.Occur.MUST);
                TopDocs found = searcher.search(query, null, 10);
                hash = Seed.mix(hash, found.totalHits);
                for (int k = 0; k < found.scoreDocs.length; k++) {
                    hash = Seed.mix(hash, searcher.doc(found.scoreDocs[k].doc).get("name"));
                }
            }
            searcher.close();
        }
        System.out.println(Long.toHexString(hash));
    }
}
