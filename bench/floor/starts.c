/*
 * The floor of start times: how late requests would start on this core if starting one cost nothing and there were no
 * other work. The program only reads the clock. A long gap between two reads means that the core was taken away: by
 * another process, the kernel, or, on a virtual machine, the host. A start that falls due in a gap is late until its
 * end, and no program can avoid that.
 *
 *   starts SECONDS
 *
 * prints one line, lateness in us, for starts evenly spread over the time:
 *
 *   client=floor p99=U p99.9=U away_ms=M longest_ms=M
 *
 * away_ms is for how many ms per second the core was away, over all gaps of 20 us and more. longest_ms is the longest
 * gap.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 1 << 20, SHORTEST_US = 20 };

static double gaps[MOST]; /* us */
static int count;

static double now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

/* later returns for how many us a start that falls due is late by more than x: each gap except its last x. */
static double later(double x)
{
	double sum = 0;
	for (int i = 0; i < count; i++)
		if (gaps[i] > x)
			sum += gaps[i] - x;
	return sum;
}

/* percentile returns the lateness that all but a share of the starts in a time stay below. */
static double percentile(double share, double time_us, double longest)
{
	double low = 0, high = longest;
	while (high - low > 0.1) {
		double middle = (low + high) / 2;
		if (later(middle) > share * time_us)
			low = middle;
		else
			high = middle;
	}
	return high;
}

int main(int argc, char **argv)
{
	double seconds = argc == 2 ? atof(argv[1]) : 0, longest = 0;
	if (!(seconds > 0 && seconds <= 60)) {
		fprintf(stderr, "usage: %s SECONDS, up to 60\n", argv[0]);
		return 1;
	}
	double begun = now_us(), last = begun;
	while (last < begun + seconds * 1e6 && count < MOST) {
		double now = now_us();
		if (now - last >= SHORTEST_US) {
			gaps[count++] = now - last;
			if (now - last > longest)
				longest = now - last;
		}
		last = now;
	}
	printf("client=floor p99=%.0f p99.9=%.0f away_ms=%.1f longest_ms=%.2f\n", percentile(0.01, last - begun, longest),
	       percentile(0.001, last - begun, longest), later(0) / 1e3 / ((last - begun) / 1e6), longest / 1e3);
	return 0;
}
