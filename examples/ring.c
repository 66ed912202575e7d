/* Passes numbers around a ring of MPI ranks, and adds them up.
 *
 * Each round, a rank computes for a while, sends to the next rank, receives from the one before, and all ranks agree on
 * a sum. Prints one line. Build it with the compiler of your MPI: mpicc -o ring ring.c
 */

#include <mpi.h>
#include <stdio.h>

enum { ROUNDS = 20, NUMBERS = 1000, STEPS = 200 };

/* Computes: one step of many small ones. */
static void compute(double *numbers)
{
	for (int step = 0; step < STEPS; step++)
		for (int i = 0; i < NUMBERS; i++)
			numbers[i] = 0.5 * numbers[i] + 1;
}

int main(int count, char **words)
{
	MPI_Init(&count, &words);
	int rank, ranks;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	double numbers[NUMBERS] = { rank }, received[NUMBERS], sum = 0;

	for (int round = 0; round < ROUNDS; round++) {
		compute(numbers);
		MPI_Sendrecv(numbers, NUMBERS, MPI_DOUBLE, next, 7, received, NUMBERS, MPI_DOUBLE, before, 7,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Allreduce(received, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	}
	if (rank == 0)
		printf("%d ranks, %d rounds: the sum is %.1f\n", ranks, ROUNDS, sum);
	MPI_Finalize();
	return 0;
}
