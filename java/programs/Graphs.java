import org.jgrapht.Graph;
import org.jgrapht.GraphPath;
import org.jgrapht.alg.connectivity.ConnectivityInspector;
import org.jgrapht.alg.shortestpath.DijkstraShortestPath;
import org.jgrapht.alg.spanning.KruskalMinimumSpanningTree;
import org.jgrapht.graph.DefaultWeightedEdge;
import org.jgrapht.graph.SimpleWeightedGraph;

/** JGraphT keeps a network of roads, and finds ways, trees and parts in it while roads change. */
public class Graphs {
    public static void main(String[] arguments) {
        Seed seed = new Seed(51);
        int places = 8000;
        Graph<Integer, DefaultWeightedEdge> roads = new SimpleWeightedGraph<>(null, DefaultWeightedEdge::new);
        for (int i = 0; i < places; i++) {
            roads.addVertex(i);
        }
        for (int i = 0; i < 3 * places; i++) {
            road(seed, roads, places);
        }
        int rounds = Seed.rounds(arguments, 10);
        long sum = 0;
        for (int round = 0; round < rounds; round++) {
            GraphPath<Integer, DefaultWeightedEdge> way =
                new DijkstraShortestPath<>(roads).getPath(seed.below(places), seed.below(places));
            sum += way == null ? 0 : way.getLength() + (long) way.getWeight();
            sum += (long) new KruskalMinimumSpanningTree<>(roads).getSpanningTree().getWeight();
            sum += new ConnectivityInspector<>(roads).connectedSets().size();
            for (int i = 0; i < 50; i++) {
                int place = seed.below(places);
                if (roads.degreeOf(place) > 0) {
                    roads.removeEdge(roads.edgesOf(place).iterator().next());
                }
                road(seed, roads, places);
            }
        }
        System.out.println(sum + ", " + roads.edgeSet().size() + " roads");
    }

    static void road(Seed seed, Graph<Integer, DefaultWeightedEdge> roads, int places) {
        int from = seed.below(places);
        int to = (from + 1 + seed.below(200)) % places;
        DefaultWeightedEdge road = roads.addEdge(from, to);
        if (road != null) {
            roads.setEdgeWeight(road, 1 + seed.below(100));
        }
    }
}
