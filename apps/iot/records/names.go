package records

import (
	"strconv"
	"strings"
)

// names are those of topics and indices: a prefix, so that several platforms can share servers, and the sensor's id.
type names string

func (n names) of(sensorID int64) string { return string(n) + strconv.FormatInt(sensorID, 10) }

func (n names) sensor(name string) (int64, bool) {
	number, isOne := strings.CutPrefix(name, string(n))
	id, err := strconv.ParseInt(number, 10, 64)
	return id, isOne && err == nil
}
