package kcontrol;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.DeduplicateWithinWatermark;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.FlatMapGroupsInArrow;
import org.apache.spark.sql.catalyst.plans.logical.FlatMapGroupsInPandas;
import org.apache.spark.sql.catalyst.plans.logical.FlatMapGroupsInPandasWithState;
import org.apache.spark.sql.catalyst.plans.logical.FlatMapGroupsWithState;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithStateInPySpark;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import scala.collection.Iterator;
import scala.collection.Seq;

/**
 * A logical plan in one text, JSON, which plan_tree.py reads: what is told there of nodes and expressions, by their numbers,
 * those of children before those of their parents. What is rarely wanted is asked of the object of that number.
 */
public class PlanTree {
    private final ArrayList nodes = new ArrayList();
    private final ArrayList expressions = new ArrayList();
    private final StringBuilder toldNodes = new StringBuilder();
    private final StringBuilder toldExpressions = new StringBuilder();
    private final IdentityHashMap numbers = new IdentityHashMap();
    private final HashMap attributes = new HashMap();
    private String[] options;

    /** options: of sources, those that are told, by their names with commas between them. */
    public String read(LogicalPlan plan, String options) {
        this.options = options.split(",");
        tell(plan);
        return "[[" + toldExpressions + "],[" + toldNodes + "]]";
    }

    public Object node(int number) {
        return nodes.get(number);
    }

    public Object expression(int number) {
        return expressions.get(number);
    }

    /** Of each node that has children, what Spark says of it in one line. */
    public String texts(int maxFields) {
        StringBuilder told = new StringBuilder("[");
        for (int number = 0; number < nodes.size(); number++) {
            LogicalPlan plan = (LogicalPlan) nodes.get(number);
            told.append(number == 0 ? "" : ",");
            quote(told, plan.children().isEmpty() ? "" : plan.simpleString(maxFields));
        }
        return told.append("]").toString();
    }

    private int tell(LogicalPlan plan) {
        String children = plans(plan.children());
        String subqueries = plans(plan.subqueries());
        String all = references(plan.expressions());
        String output = expressions(plan.output());
        Seq keys = keysOf(plan);
        String told = "," + children + "," + subqueries + "," + all + "," + output + ","
            + (keys == null ? "null" : expressions(keys)) + "," + more(plan) + "]";
        int number = nodes.size();
        nodes.add(plan);
        toldNodes.append(number == 0 ? "[" : ",[");
        quote(toldNodes, plan.nodeName());
        toldNodes.append(plan.isStreaming() ? ",1" : ",0").append(told);
        return number;
    }

    private static Seq keysOf(LogicalPlan plan) {
        if (plan instanceof Aggregate) {
            return ((Aggregate) plan).groupingExpressions();
        }
        if (plan instanceof Deduplicate) {
            return ((Deduplicate) plan).keys();
        }
        if (plan instanceof DeduplicateWithinWatermark) {
            return ((DeduplicateWithinWatermark) plan).keys();
        }
        if (plan instanceof FlatMapGroupsInPandas) {
            return ((FlatMapGroupsInPandas) plan).groupingAttributes();
        }
        if (plan instanceof FlatMapGroupsInArrow) {
            return ((FlatMapGroupsInArrow) plan).groupingAttributes();
        }
        if (plan instanceof FlatMapGroupsInPandasWithState) {
            return ((FlatMapGroupsInPandasWithState) plan).groupingAttributes();
        }
        if (plan instanceof FlatMapGroupsWithState) {
            return ((FlatMapGroupsWithState) plan).groupingAttributes();
        }
        if (plan instanceof TransformWithState) {
            return ((TransformWithState) plan).groupingAttributes();
        }
        if (plan instanceof TransformWithStateInPySpark) {
            TransformWithStateInPySpark node = (TransformWithStateInPySpark) plan;
            return (Seq) ((LogicalPlan) node.left()).output().take(node.groupingAttributesLen());
        }
        return null;
    }

    private String more(LogicalPlan plan) {
        if (plan instanceof Aggregate) {
            return "{\"aggregates\":" + expressions(((Aggregate) plan).aggregateExpressions()) + "}";
        }
        if (plan instanceof CTERelationDef) {
            return "{\"cte\":" + ((CTERelationDef) plan).id() + "}";
        }
        if (plan instanceof CTERelationRef) {
            return "{\"cte\":" + ((CTERelationRef) plan).cteId() + "}";
        }
        if (plan instanceof EventTimeWatermark) {
            return "{\"event_time\":" + tell(((EventTimeWatermark) plan).eventTime(), false) + "}";
        }
        if (plan instanceof Join) {
            Join join = (Join) plan;
            StringBuilder told = new StringBuilder("{\"join\":");
            quote(told, join.joinType().toString());
            if (join.condition().isDefined()) {
                told.append(",\"condition\":").append(tell((Expression) join.condition().get(), true));
            }
            return told.append("}").toString();
        }
        if (plan instanceof StreamingRelationV2) {
            return source((StreamingRelationV2) plan);
        }
        return "{}";
    }

    private String source(StreamingRelationV2 plan) {
        StringBuilder told = new StringBuilder("{\"source\":");
        quote(told, plan.sourceName());
        told.append(",\"options\":{");
        String before = "";
        for (int place = 0; place < options.length; place++) {
            String value = plan.extraOptions().get(options[place]);
            if (value != null) {
                told.append(before);
                quote(told, options[place]);
                told.append(":");
                quote(told, value);
                before = ",";
            }
        }
        return told.append("}}").toString();
    }

    private String plans(Seq plans) {
        StringBuilder told = new StringBuilder("[");
        Iterator each = plans.iterator();
        while (each.hasNext()) {
            told.append(tell((LogicalPlan) each.next())).append(each.hasNext() ? "," : "");
        }
        return told.append("]").toString();
    }

    private String references(Seq expressions) {
        return listed(expressions, true);
    }

    private String expressions(Seq expressions) {
        return listed(expressions, false);
    }

    private String listed(Seq expressions, boolean referring) {
        StringBuilder told = new StringBuilder("[");
        Iterator each = expressions.iterator();
        while (each.hasNext()) {
            told.append(tell((Expression) each.next(), referring)).append(each.hasNext() ? "," : "");
        }
        return told.append("]").toString();
    }

    /** referring: tell to which attributes it refers, and of a conjunction each part of it. */
    private int tell(Expression expression, boolean referring) {
        Object known = numbers.get(expression);
        if (known != null) {
            return ((Integer) known).intValue();
        }
        boolean parts = referring
            && (expression instanceof And || expression instanceof EqualTo || expression instanceof EqualNullSafe);
        String children = listed(expression.children(), parts);
        StringBuilder told = new StringBuilder("[");
        quote(told, expression.getClass().getSimpleName());
        told.append(",");
        quote(told, expression.prettyName());
        told.append(",");
        quote(told, typeOf(expression));
        told.append(",").append(flagsOf(expression)).append(",").append(children);
        boolean isAttribute = expression instanceof AttributeReference;
        if (isAttribute || referring) {
            told.append(",").append(referencesOf(expression));
        } else {
            told.append(",null");
        }
        named(told, expression);
        String text = told.append("]").toString();
        Object same = isAttribute ? attributes.get(text) : null;
        Integer number = same == null ? Integer.valueOf(expressions.size()) : (Integer) same;
        if (same == null) {
            toldExpressions.append(expressions.isEmpty() ? "" : ",").append(text);
            expressions.add(expression);
        }
        if (isAttribute) {
            attributes.put(text, number);
        }
        numbers.put(expression, number);
        return number.intValue();
    }

    private static void named(StringBuilder told, Expression expression) {
        if (!(expression instanceof NamedExpression) || !expression.resolved()) {
            return;
        }
        NamedExpression named = (NamedExpression) expression;
        told.append(",").append(named.exprId().id()).append(",");
        quote(told, named.name());
        told.append(",").append(expression instanceof AttributeReference ? named.metadata().json() : "{}");
    }

    private static String typeOf(Expression expression) {
        try {
            return expression.resolved() ? expression.dataType().simpleString() : "";
        } catch (Exception e) {
            return ""; // Some, such as a window's frame, have none.
        }
    }

    private static int flagsOf(Expression expression) {
        int flags = expression.deterministic() ? 1 : 0;
        flags += expression.containsPattern(TreePattern.CURRENT_LIKE()) ? 2 : 0;
        flags += expression.resolved() && expression.foldable() ? 4 : 0;
        flags += expression instanceof AggregateExpression && ((AggregateExpression) expression).isDistinct() ? 8 : 0;
        return flags;
    }

    private static String referencesOf(Expression expression) {
        StringBuilder told = new StringBuilder("[");
        Iterator each = expression.references().toSeq().iterator();
        while (each.hasNext()) {
            told.append(((NamedExpression) each.next()).exprId().id()).append(each.hasNext() ? "," : "");
        }
        return told.append("]").toString();
    }

    private static void quote(StringBuilder told, String text) {
        told.append('"');
        for (int place = 0; place < text.length(); place++) {
            char one = text.charAt(place);
            if (one == '"' || one == '\\') {
                told.append('\\').append(one);
            } else if (one < ' ' || one > '~') {
                told.append("\\u").append(Integer.toHexString(0x10000 + one).substring(1));
            } else {
                told.append(one);
            }
        }
        told.append('"');
    }
}
