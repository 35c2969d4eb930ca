package main

// The part of Grafana's dashboard model (schema version 39, Grafana 11 and later) that these dashboards need, with
// Grafana's own names.

// Board is a dashboard.
type Board struct {
	// UID is the dashboard's ID in URLs.
	UID           string      `json:"uid"`
	Title         string      `json:"title"`
	Description   string      `json:"description"`
	Tags          []string    `json:"tags"`
	Timezone      string      `json:"timezone"`
	SchemaVersion int         `json:"schemaVersion"`
	Version       int         `json:"version"`
	Refresh       string      `json:"refresh"`
	GraphTooltip  int         `json:"graphTooltip"`
	Time          TimeRange   `json:"time"`
	Links         []Link      `json:"links"`
	Templating    Templating  `json:"templating"`
	Annotations   Annotations `json:"annotations"`
	Panels        []Panel     `json:"panels"`
}

// TimeRange is the time range that a dashboard opens with.
type TimeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Link leads to the dashboards with a tag.
type Link struct {
	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Tooltip     string   `json:"tooltip"`
	Icon        string   `json:"icon"`
	Tags        []string `json:"tags"`
	AsDropdown  bool     `json:"asDropdown"`
	TargetBlank bool     `json:"targetBlank"`
	IncludeVars bool     `json:"includeVars"`
	KeepTime    bool     `json:"keepTime"`
}

// Templating holds the variables.
type Templating struct {
	List []Variable `json:"list"`
}

// Variable is a value that a person chooses and that queries use.
type Variable struct {
	Name  string `json:"name"`
	Label string `json:"label"`
	Type  string `json:"type"`
	// Datasource is nil for a variable that is a data source itself.
	Datasource *Source `json:"datasource,omitempty"`
	Query      string  `json:"query"`
	Multi      bool    `json:"multi"`
	IncludeAll bool    `json:"includeAll"`
	AllValue   string  `json:"allValue,omitempty"`
	Refresh    int     `json:"refresh"`
	Sort       int     `json:"sort"`
}

// Source names a data source.
type Source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Annotations are marks in time.
type Annotations struct {
	List []Annotation `json:"list"`
}

// Annotation is a query whose rows become marks.
type Annotation struct {
	Name       string           `json:"name"`
	Enable     bool             `json:"enable"`
	IconColor  string           `json:"iconColor"`
	Datasource Source           `json:"datasource"`
	Target     AnnotationTarget `json:"target"`
}

// AnnotationTarget is an annotation's query.
type AnnotationTarget struct {
	RefID           string `json:"refId"`
	FromAnnotations bool   `json:"fromAnnotations"`
	QueryType       string `json:"queryType"`
	Query           string `json:"query"`
	RawQuery        bool   `json:"rawQuery"`
	Name            string `json:"name"`
	TextColumn      string `json:"textColumn"`
	TagsColumn      string `json:"tagsColumn"`
	TitleColumn     string `json:"titleColumn"`
	TimeEndColumn   string `json:"timeEndColumn"`
}

// Panel is a graph or a table.
type Panel struct {
	ID              int              `json:"id"`
	Type            string           `json:"type"`
	Title           string           `json:"title"`
	Description     string           `json:"description,omitempty"`
	GridPos         GridPos          `json:"gridPos"`
	Datasource      Source           `json:"datasource"`
	Interval        string           `json:"interval,omitempty"`
	Targets         []Target         `json:"targets"`
	Transformations []Transformation `json:"transformations,omitempty"`
	FieldConfig     FieldConfig      `json:"fieldConfig"`
	Options         any              `json:"options"`
}

// GridPos is a place in a grid of width 24.
type GridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// Target is a query, in InfluxQL or in PromQL.
type Target struct {
	RefID      string `json:"refId"`
	Datasource Source `json:"datasource"`
	*InfluxQL  `json:",omitempty"`
	*PromQL    `json:",omitempty"`
}

// InfluxQL is a query of InfluxDB.
type InfluxQL struct {
	RawQuery     bool   `json:"rawQuery"`
	Query        string `json:"query"`
	ResultFormat string `json:"resultFormat"`
	Alias        string `json:"alias,omitempty"`
}

// PromQL is a query of Prometheus. It is of an instant or of a range.
type PromQL struct {
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat,omitempty"`
	Instant      bool   `json:"instant"`
	Range        bool   `json:"range"`
	Format       string `json:"format"`
}

// Transformation changes the result of a query before it is shown.
type Transformation struct {
	ID      string `json:"id"`
	Options any    `json:"options"`
}

// FieldConfig says how values are shown.
type FieldConfig struct {
	Defaults  FieldDefaults `json:"defaults"`
	Overrides []Override    `json:"overrides"`
}

// FieldDefaults apply to all values of a panel.
type FieldDefaults struct {
	Unit       string         `json:"unit,omitempty"`
	Decimals   *int           `json:"decimals,omitempty"`
	Min        *float64       `json:"min,omitempty"`
	Max        *float64       `json:"max,omitempty"`
	NoData     string         `json:"noValue,omitempty"`
	Color      *Color         `json:"color,omitempty"`
	Mappings   []Mapping      `json:"mappings,omitempty"`
	Thresholds *Thresholds    `json:"thresholds,omitempty"`
	Custom     map[string]any `json:"custom,omitempty"`
}

// Color says where the colour of values comes from.
type Color struct {
	Mode  string `json:"mode"`
	Fixed string `json:"fixedColor,omitempty"`
}

// Mapping shows words in place of values.
type Mapping struct {
	Type    string          `json:"type"`
	Options map[string]Word `json:"options"`
}

// Word is what is shown for a value.
type Word struct {
	Text  string `json:"text"`
	Color string `json:"color"`
	Index int    `json:"index"`
}

// Thresholds are the values at which the colour changes.
type Thresholds struct {
	Mode  string `json:"mode"`
	Steps []Step `json:"steps"`
}

// Step is the colour from a value upwards. The first step is for all lower values.
type Step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

// Override is for some values of a panel.
type Override struct {
	Matcher    Matcher    `json:"matcher"`
	Properties []Property `json:"properties"`
}

// Matcher chooses values.
type Matcher struct {
	ID      string `json:"id"`
	Options any    `json:"options"`
}

// Property is one thing that an override sets.
type Property struct {
	ID    string `json:"id"`
	Value any    `json:"value"`
}
