package storage

import "sync"

// Queue is the queue of a run's tasks that may wait for the disk. It is safe for concurrent use; the zero value is
// ready to use.
type Queue struct {
	mu    sync.Mutex
	tasks []func()
	busy  bool // a goroutine works on them
}

// Push adds a task. It reports whether the caller must start the goroutine that works on the queue. It does not block.
func (q *Queue) Push(task func()) (start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tasks = append(q.tasks, task)
	start, q.busy = !q.busy, true
	return start
}

// Pop removes and returns the oldest task. If there is none, it returns nil and the goroutine must end.
func (q *Queue) Pop() func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.tasks) == 0 {
		q.busy = false
		return nil
	}
	task := q.tasks[0]
	q.tasks = q.tasks[1:]
	return task
}
